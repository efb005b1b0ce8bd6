"""The HTTP layer: routes, the event stream, webhooks, and fault injection."""
