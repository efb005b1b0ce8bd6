"""Messages for watchers that want some of them."""

from __future__ import annotations

from tests.unit.workbench import Workbench

EVEN = "contains(`[0, 2, 4, 6, 8]`, payload.n)"
ODD = "contains(`[1, 3, 5, 7, 9]`, payload.n)"
FAILS = "length(payload.n) == `1`"
"""Fails on a number, which has no length."""


def put(bench: Workbench, *numbers: int) -> list[str]:
    ids = [f"m{number}" for number in numbers]
    bench.service.put(bench.inbox_id, *({"n": number} for number in numbers), ids=ids)
    return ids
