"""The rules of the service, without HTTP: its state, and the effect of each call. The clock is injected."""
