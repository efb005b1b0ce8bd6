"""Counts the messages of each inbox that became DAG runs."""

from collections import Counter

started: Counter[str] = Counter()


def observe(event):
    if event.what == "started":
        started[event.inbox] += event.count
