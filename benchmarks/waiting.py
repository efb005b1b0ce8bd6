"""
What watchers of 10, 100 and 1000 inboxes take while nothing arrives: CPU, memory and sockets of the process
in a real triggerer that runs them, polling every 5 s and with event streams; beside a bare ``aiohttp`` loop
that sends as many requests, beside ``SqsSensorTrigger``, and beside triggers that only sleep.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from airflow_provider_workflow.emulator.server import EmulatorServer
from airflow_provider_workflow.triggers.polling import TICK_SECONDS
from benchmarks.polling import POLL_SECONDS, poll_barely
from benchmarks.process import Seen
from benchmarks.results import Figure, Row, Target, alone, compared, paired
from benchmarks.sqs import queues
from benchmarks.watchers import (
    MAX_POLL_SECONDS,
    Triggerers,
    Watchers,
    listening,
    of_queues,
    polling,
    sleeping,
)

SIZES = (10, 100, 1000)
QUICK_SIZES = (10,)
WINDOWS = 4
"""Each of 5 s, in which every watcher that polls does so once."""
QUICK_WINDOWS = 2
LISTENING_SECONDS = MAX_POLL_SECONDS
"""One window for those with event streams, as what they poll beneath comes in bursts."""
QUICK_LISTENING_SECONDS = 10.0
OFTEN = 100
"""Watchers with event streams, whose CPU is looked at for two intervals of polling."""
OFTEN_SECONDS = 1.0

SHARE = "share of one core"
NEAR_BARE = Target("ratio", "<=", 1.3)
LITTLE = Target("ours", "<", 15)
NO_MORE = Target("ratio", "<=", 1.2)


@dataclass(frozen=True)
class Round:
    """What was seen of so many watchers, in turn."""

    count: int
    polling: Seen
    listening: Seen
    bare: Seen
    bare_in_ticks: Seen
    queues: Seen
    sleeping: Seen


def run(quick: bool) -> list[Row]:
    """Measure; ``quick`` for few watchers, and a shorter time."""
    sizes, windows = (QUICK_SIZES, QUICK_WINDOWS) if quick else (SIZES, WINDOWS)
    long = QUICK_LISTENING_SECONDS if quick else LISTENING_SECONDS
    with _bench(max(sizes)) as bench:
        idle = bench.triggerers.measure(Watchers(0), windows)
        rounds = [bench.round(count, windows, long) for count in sizes]
        often = None if quick else bench.triggerers.measure(listening(OFTEN, long, OFTEN_SECONDS), 1)
    found = [*_idle(idle), *(row for each in rounds for row in rows(each, idle))]
    seldom = next((each.listening for each in rounds if each.count == OFTEN), None)
    return found if often is None or seldom is None else [*found, _often(often, seldom)]


@dataclass(frozen=True)
class _Bench:
    """
    :param queues_at: the queues' address, before their names.
    """

    service: EmulatorServer
    triggerers: Triggerers
    queues_at: str

    def round(self, count: int, windows: int, long: float) -> Round:
        print(f"  {count} watchers ...", flush=True)
        service = self.service
        ids = [service.store.inboxes.find(f"inbox_{n}").id for n in range(count)]
        return Round(
            count,
            polling=self.triggerers.measure(polling(count), windows),
            listening=self.triggerers.measure(listening(count, long), 1),
            bare=poll_barely(service.base_url, service.token(), ids, windows),
            bare_in_ticks=poll_barely(service.base_url, service.token(), ids, windows, TICK_SECONDS),
            queues=self.triggerers.measure(of_queues(count, self.queues_at), windows),
            sleeping=self.triggerers.measure(sleeping(count), windows),
        )


@contextmanager
def _bench(count: int) -> Iterator[_Bench]:
    """As many inboxes, and as many queues."""
    with EmulatorServer() as service, queues() as sqs:
        opened = ""
        for n in range(count):
            service.open_inbox(f"inbox_{n}")
            opened = sqs.open_queue(f"inbox_{n}")
        yield _Bench(service, Triggerers(service, sqs), opened.rpartition("/")[0])


def _idle(idle: Seen) -> list[Row]:
    what = "triggerer without watchers"
    return [
        alone(f"{what}: {SHARE}", "%", idle.shares),
        alone(f"{what}: memory", "MB", [idle.megabytes]),
        alone(f"{what}: sockets", "sockets", [idle.sockets]),
    ]


def rows(of: Round, idle: Seen) -> list[Row]:
    """
    What is shown of a round.

    :param idle: a triggerer without watchers, whose CPU does not count as theirs.
    """
    what = {
        "polling": f"{of.count} watchers, {_paced('5 s polls', of.count, of.polling)}",
        "listening": f"{of.count} watchers, event streams",
    }
    beside = _paced("SqsSensorTrigger, 5 s polls", of.count, of.queues)
    found = _per_poll(of, what["polling"], beside, Figure.of(idle.shares).median)
    for name, seen in {"polling": of.polling, "listening": of.listening}.items():
        target = LITTLE if of.count == max(SIZES) else None
        shares, theirs = Figure.of(seen.shares), Figure.of(of.queues.shares)
        ratio = Figure.of([shares.median / theirs.median]) if theirs.median else None
        asleep = f"triggers that only wake every {POLL_SECONDS:g} s"
        found += [
            Row(f"{what[name]}: {SHARE}", "%", shares, beside, theirs, ratio, target),
            Row(f"{what[name]}: {SHARE}", "%", shares, asleep, Figure.of(of.sleeping.shares)),
            compared(f"{what[name]}: memory", "MB", [seen.megabytes], beside, [of.queues.megabytes]),
            compared(f"{what[name]}: sockets", "sockets", [seen.sockets], beside, [of.queues.sockets]),
        ]
    return found


def _per_poll(of: Round, what: str, beside: str, idle_share: float) -> list[Row]:
    """What one poll costs, beyond a triggerer that has nothing to watch."""
    what = f"{what}: CPU per 1000 polls"
    ours, theirs = of.polling.per_1000_polls(idle_share), of.queues.per_1000_polls(idle_share)
    in_ticks = f"bare aiohttp loop, in ticks of {TICK_SECONDS:g} s as ours"
    return [
        paired(what, "s", ours, "bare aiohttp loop", of.bare.per_1000_polls(), NEAR_BARE),
        paired(what, "s", ours, in_ticks, of.bare_in_ticks.per_1000_polls()),
        paired(what, "s", ours, beside, theirs),
    ]


def _paced(name: str, count: int, seen: Seen) -> str:
    """The name, and what came of the pace where it was not kept."""
    due, kept = count / POLL_SECONDS, seen.polls_per_second
    return name if kept > 0.9 * due else f"{name} ({kept:.1f} a second seen, of {due:g})"


def _often(often: Seen, seldom: Seen) -> Row:
    what = f"{OFTEN} watchers, event streams, poll_interval {OFTEN_SECONDS:g} s: {SHARE}"
    beside = f"poll_interval {MAX_POLL_SECONDS:g} s"
    return compared(what, "%", often.shares, beside, seldom.shares, NO_MORE)
