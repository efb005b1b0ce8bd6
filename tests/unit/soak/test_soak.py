"""What a soak says of figures that grow, and of a listener that leaks."""

from __future__ import annotations

import asyncio
import os
from contextlib import AsyncExitStack

import psutil
import pytest

from airflow_provider_workflow.client import event_stream
from airflow_provider_workflow.client.aiohttp_transport import shared_session
from airflow_provider_workflow.client.async_client import AsyncWorkflowClient
from airflow_provider_workflow.client.tokens import TokenCache
from airflow_provider_workflow.emulator.server import EmulatorServer
from tests.soak import probe
from tests.soak.report import (
    GOES_ON,
    GROWS,
    RULES,
    STANDS_STILL,
    STEADY,
    TOO_MANY,
    TOO_SHORT,
    Row,
    Rule,
    rows_of,
    table,
    warnings_of_unclosed,
)
from tests.soak.sampling import OPEN_FILES, OWN, THREADS, TO_SERVICE, Sampler
from tests.unit.client.conftest import settings_of

HALF_HOUR = [float(second) for second in range(360, 1800, 10)]
"""When samples are taken in a soak of half an hour."""


def verdict(figure: str, values: list[float], times: list[float] = HALF_HOUR) -> str:
    (row,) = rows_of({("triggerer: runs the triggers", figure): {1: list(zip(times, values, strict=True))}})
    assert row.holds == (row.verdict not in (GROWS, TOO_MANY, STANDS_STILL))
    return row.verdict


N = len(HALF_HOUR)
MOMENT = [12.0] * (N - 3) + [18.0] * 3
"""Much is open at its end, for a moment."""
BUSY_AT_THE_END = [25.0] * (N - N // 3) + [39.0 if number % 3 else 25.0 for number in range(N // 3)]
"""A worker that has more to do in the last third, and not all the time."""


@pytest.mark.parametrize(
    ("figure", "values", "expected"),
    [
        (TO_SERVICE, [12.0] * N, STEADY),
        (TO_SERVICE, [12.0 + number % 3 for number in range(N)], STEADY),
        (TO_SERVICE, MOMENT, STEADY),
        (OPEN_FILES, BUSY_AT_THE_END, STEADY),
        (OPEN_FILES, [50.0 - at / 100 for at in HALF_HOUR], STEADY),
        ("sessions", [2.0] * N, STEADY),
        ("sessions", [2.0] * (N - 1) + [3.0], TOO_MANY),
        ("objects", HALF_HOUR, ""),
        ("tokens issued", HALF_HOUR, GOES_ON),
        ("tokens issued", [7.0] * N, STANDS_STILL),
    ],
)
def test_a_count_is_judged_by_its_rule(figure, values, expected):
    assert verdict(figure, values) == expected


@pytest.mark.parametrize(
    ("figure", "seconds"),
    # The threads that are allowed are as many as the machine's cores ask for, 32 at most.
    [(THREADS, 10), (TO_SERVICE, 10), (TO_SERVICE, 150), (OPEN_FILES, 150)],
)
def test_one_more_every_so_many_seconds_is_found_out_in_half_an_hour(figure, seconds):
    assert verdict(figure, [at // seconds for at in HALF_HOUR]) in (GROWS, TOO_MANY)


MINUTE = [float(second) for second in range(18, 90, 2)]


def test_one_more_with_each_run_of_the_listener_is_found_out_within_a_minute():
    assert verdict(TO_SERVICE, [5.0 + at // 10 for at in MINUTE], MINUTE) == GROWS


def test_memory_is_judged_by_its_slope_and_not_at_all_if_the_time_was_short():
    per_hour = RULES[OWN].per_hour
    for share, expected in ((0.5, STEADY), (2.0, GROWS)):
        assert verdict(OWN, [100 + share * per_hour * at / 3600 for at in HALF_HOUR]) == expected
    assert verdict(OWN, [100 + at for at in MINUTE], MINUTE) == TOO_SHORT


def row_of(*members) -> Row:
    return Row.of(("workers", OPEN_FILES), [list(points) for points in members])


def test_a_row_has_the_slope_in_an_hour_and_the_lower_quartiles_of_the_thirds():
    row = row_of((at, at / 360) for at in range(0, 3601, 100))
    assert row.per_hour == pytest.approx(10)
    assert (row.first, row.last, row.most) == pytest.approx((300 / 360, 2700 / 360, 10))


def test_workers_are_looked_at_one_by_one_and_added_up():
    """One of four works at a time, two at some moments: their sum would go up and down with that."""
    times = range(0, 1000, 10)
    workers = [[20.0 + 7 * ((at // 10 + worker) % 4 == 0) for at in times] for worker in range(4)]
    row = row_of(*(zip(times, values, strict=True) for values in workers))
    assert (row.first, row.last) == (80, 80)

    workers[2] = [value + number / 20 for number, value in enumerate(workers[2])]
    row = row_of(*(zip(times, values, strict=True) for values in workers))
    assert row.last - row.first == pytest.approx(10 / 3, abs=0.2)


def test_the_table_says_what_is_allowed_and_names_what_grows():
    growing, steady = (list(zip(HALF_HOUR, values, strict=True)) for values in (HALF_HOUR, [7.0] * N))
    rows = rows_of({("triggerer", THREADS): {1: growing}, ("triggerer", TO_SERVICE): {1: steady}})
    lines = table(rows).splitlines()

    assert len(lines) == 3
    assert [line for line in lines if GROWS in line] == [line for line in lines if THREADS in line]
    assert [str(Rule(slack=2, most=18)), str(Rule(per_hour=60))] == ["+2, 18 at most", "+60/h"]
    assert [line for line in lines if str(RULES[TO_SERVICE]) in line]


def test_complaints_of_the_logs_are_found(tmp_path):
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "attempt=1.log").write_text("fine\nUnclosed client session\n")
    (tmp_path / "triggerer.log").write_text("Unclosed connector\nfine\n")
    assert sorted(warnings_of_unclosed(tmp_path)) == ["Unclosed client session", "Unclosed connector"]


STREAMS = 100
"""More than a listener that leaks needs in all cycles."""
WATCHED = (TO_SERVICE, OPEN_FILES, "sessions", "asyncio tasks")


async def verdicts(emulator: EmulatorServer, left_open: AsyncExitStack | None = None) -> dict[str, str]:
    """
    What is said of a listener that comes and goes.

    :param left_open: what it does not close.
    """
    settings, tokens = settings_of(emulator), TokenCache()
    sampler, process = Sampler(emulator.port), psutil.Process(os.getpid())
    for cycle in range(12):
        # One of its own, as listeners of an inbox share a stream.
        inbox_id = emulator.open_inbox(f"inbox {cycle}")
        async with AsyncExitStack() as own:
            stack = left_open or own
            session = await stack.enter_async_context(shared_session(settings.tls(), STREAMS))
            client = AsyncWorkflowClient(settings, session, tokens=tokens)
            bell = await stack.enter_async_context(event_stream.listen(client, inbox_id, STREAMS))
            assert bell is not None
            assert await asyncio.wait_for(bell.wait(), 10)
            sampler.take(float(cycle), {"this": [process]})
            sampler.note(float(cycle), "this", probe.counts_of_process())
    verdicts_by_figure = {row.key[1]: row.verdict for row in rows_of(sampler.series)}
    return {figure: verdicts_by_figure[figure] for figure in WATCHED}


async def test_a_listener_that_comes_and_goes_leaves_nothing_open(emulator: EmulatorServer) -> None:
    assert await verdicts(emulator) == dict.fromkeys(WATCHED, STEADY)


async def test_a_listener_that_leaves_its_streams_open_is_found_out(emulator: EmulatorServer) -> None:
    async with AsyncExitStack() as left_open:
        verdicts_by_figure = await verdicts(emulator, left_open)

    assert verdicts_by_figure[OPEN_FILES] == verdicts_by_figure["asyncio tasks"] == GROWS
    assert verdicts_by_figure[TO_SERVICE] in (GROWS, TOO_MANY)
