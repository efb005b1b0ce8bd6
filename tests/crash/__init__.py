"""Kill everything, at any moment, and count: ``python -m tests.crash`` (``make crash-test``)."""
