"""Providers of other queues beside this one, on the same work: ``make bench ONLY=peers``."""
