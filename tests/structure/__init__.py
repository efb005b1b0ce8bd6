"""Which files and functions one message passes through: ``python -m tests.structure.trace dispatch``."""
