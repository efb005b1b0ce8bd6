"""The service without HTTP: what it stores, and what each call does. Its clock is injected."""
