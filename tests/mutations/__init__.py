"""Seeded faults in the code that keeps the promise: each must make a unit test fail."""
