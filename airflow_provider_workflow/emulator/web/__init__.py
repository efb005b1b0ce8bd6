"""HTTP around the rules: routes, the event stream, webhooks, and faults that are injected on demand."""
