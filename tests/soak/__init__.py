"""Let everything run for long, and see whether anything grows: ``python -m tests.soak`` (``make soak``)."""
