"""Benchmarks of a whole deployment, on PostgreSQL: ``make bench ONLY=scale``, or one of its parts."""
