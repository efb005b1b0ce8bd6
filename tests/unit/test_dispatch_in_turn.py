"""Where a lease fetched ahead would grow old, or threads mix up answers, each step waits for the last."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.unit.fake_clock import FakeClock
from tests.unit.workbench import Workbench

Release = Callable[[int, int], None]


def seen_at_each_run(bench: Workbench, look: Callable[[], Any]) -> list[Any]:
    seen: list[Any] = []
    bench.supervisor.on_start = lambda: seen.append(look())
    return seen


def test_where_starting_is_slow_nothing_is_leased_ahead_to_grow_old(
    bench: Workbench, fake_clock: FakeClock
) -> None:
    def pass_time() -> int:
        fake_clock.advance(1)
        return bench.service.count("lease")

    leases = seen_at_each_run(bench, pass_time)
    bench.put(*"abcd")
    bench.ready_dispatcher().drain()

    assert leases == [1, 1, 2, 2]


def test_with_a_limit_on_runs_nothing_is_leased_ahead(bench: Workbench) -> None:
    asked: list[int] = []
    bench.ti.unfinished = lambda dag_id: asked.append(bench.service.count("lease")) or 0  # type: ignore[func-returns-value]
    bench.put(*"abcd")
    bench.ready_dispatcher(max_unfinished_runs=9).drain()

    assert asked == [0, 1, 2]


def test_where_answers_are_not_kept_apart_one_thread_does_it_all(bench: Workbench) -> None:
    del bench.supervisor._thread_lock
    acknowledged = seen_at_each_run(bench, lambda: (bench.service.count("lease"), bench.service.count("ack")))
    bench.put(*"abcde")
    bench.ready_dispatcher().drain()

    assert acknowledged == [(1, 0), (1, 0), (2, 1), (2, 1), (3, 2)]
