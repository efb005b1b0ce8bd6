"""Shared by the demo, the end-to-end tests and the benchmarks; not part of the distribution."""
