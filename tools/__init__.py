"""What the demo, the end-to-end tests and the benchmarks share; not part of the distribution."""
