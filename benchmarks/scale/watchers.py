"""
What watchers of up to 10,000 inboxes take while nothing arrives, and which limit is met first: in a real
Airflow with as many triggerers as they need, and on one event loop without an Airflow around it.
"""

from __future__ import annotations

import contextlib
import json
import resource
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import psutil

from benchmarks.growth import spread
from benchmarks.process import Seen, Watch
from benchmarks.results import Point, Row, Target, alone
from benchmarks.scale import files
from benchmarks.scale.deployment import metadata_database
from benchmarks.scale.fleet import (
    EMULATOR,
    NOTICED_SECONDS,
    POSTGRES,
    RUNNERS,
    SCHEDULER,
    SUPERVISORS,
    Fleet,
    Stored,
    Waiting,
    fleet,
)
from benchmarks.scale.hollow import Hollow, Noticed, hollow
from benchmarks.scale.load import MACHINE
from benchmarks.scale.wanted import Wanted
from benchmarks.service import Service, service
from benchmarks.stage import private_folder
from tools.airflow_settings import environment

LATE_SECONDS = 0.2
"""Default of ``[triggerer] blocked_main_thread_warning_threshold``, from which on Airflow warns."""
APART_SECONDS = 0.5
NONE = Target("ours", "<=", 0)
MOST = Target("ours", ">=", 90)
NOT_ALL = Target("ours", "<", 90)
CPU, MEMORY, NOTICE = "scale-watchers-cpu", "scale-watchers-memory", "scale-watchers-notice"
REAL, BARE = "Airflow, 1000 to a triggerer", "one event loop, without Airflow"


@dataclass(frozen=True)
class Size:
    """
    How much is measured.

    :param real: inboxes, each time in a new Airflow.
    :param bare: inboxes, each time on one event loop.
    :param decorated: inboxes of ``@inbox_dag``, whose DAG files are measured alone.
    :param settle_seconds: from the last first poll to the window.
    :param window_seconds: of the window; each watcher polls once in 60 s.
    :param samples: messages after each window.
    """

    real: Sequence[int] = (1000, 10_000)
    bare: Sequence[int] = (1000, 5000, 10_000)
    decorated: Sequence[int] = (100, 1000)
    settle_seconds: float = 10.0
    window_seconds: float = 60.0
    samples: int = 15


QUICK = Size(real=(20,), bare=(20, 40), decorated=(4,), settle_seconds=2, window_seconds=5, samples=2)


def size_of(wanted: Wanted) -> Size:
    """The size; numbers of inboxes that are given are for the first two."""
    size = QUICK if wanted.quick else Size()
    return Size(**{**vars(size), "real": wanted.sizes, "bare": wanted.sizes}) if wanted.sizes else size


def run(wanted: Wanted) -> list[Row]:
    """Measure; ``sizes`` are numbers of inboxes."""
    size = size_of(wanted)
    _allow_open_files()
    found: list[Row] = []
    for count in size.decorated:
        print(f"  DAG files of {count} inboxes ...", flush=True)
        found += stored_rows("@inbox_dag", count, _stored(count))
    for count in size.real:
        print(f"  {count} inboxes, in Airflow ...", flush=True)
        stored, waiting = _waiting(count, size)
        found += [*stored_rows("assets of one DAG", count, stored), *waiting_rows(count, stored, waiting)]
    for count in size.bare:
        print(f"  {count} inboxes, on one event loop ...", flush=True)
        found += bare_rows(_bare(count, size))
    for line in limits_met(found):
        print(f"  limit met: {line}", flush=True)
    return found


def _allow_open_files() -> None:
    """Open as many files as the system lets this user: each stream is one, in two processes."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def names(count: int) -> list[str]:
    return [f"inbox_{number}" for number in range(count)]


@contextlib.contextmanager
def _fleet(count: int) -> Iterator[Fleet]:
    """A new Airflow for so many inboxes, without DAG files."""
    with (
        service(names(count)) as emulator,
        metadata_database() as database,
        private_folder() as home,
        fleet(home, emulator, database, json.dumps(emulator.connection), count) as watched,
    ):
        yield watched


def _stored(count: int) -> Stored:
    with _fleet(count) as watched:
        return watched.store(files.DECORATED)


def _waiting(count: int, size: Size) -> tuple[Stored, Waiting]:
    with _fleet(count) as watched:
        stored = watched.store(files.ASSETS)
        chosen = chosen_of(count, size.samples)
        return stored, watched.wait(size.settle_seconds, size.window_seconds, chosen)


def chosen_of(count: int, samples: int) -> list[str]:
    """Inboxes that get a message, far apart and each once."""
    return list(dict.fromkeys(f"inbox_{number}" for number in spread(samples, count)))


@dataclass(frozen=True)
class Bare:
    """
    What was seen of watchers on one event loop.

    :param lateness: of the loop in the window, seconds.
    :param collections: of garbage in the window, seconds.
    :param noticed: seconds from a message to the event of its inbox, those in time.
    """

    count: int
    polled_seconds: float
    seen: Seen
    emulator_share: float
    streams: int
    ended: int
    lateness: list[float]
    collections: list[float]
    noticed: list[float]
    samples: int


def _bare(count: int, size: Size) -> Bare:
    with service(names(count)) as emulator, private_folder() as home:
        env = {
            **environment(home, home, 0, {"workflow_default": json.dumps(emulator.connection)}),
            "AIRFLOW__WORKFLOW__MAX_EVENT_STREAMS": str(count),
            "AIRFLOW__LOGGING__LOGGING_LEVEL": "WARNING",
        }
        with hollow(count, env) as triggerer:
            return _watched(count, size, emulator, triggerer)


def _watched(count: int, size: Size, emulator: Service, triggerer: Hollow) -> Bare:
    began_at = time.monotonic()
    _wait(lambda: emulator.count("list_messages") >= count and emulator.open_streams() >= count)
    polled_seconds = time.monotonic() - began_at
    time.sleep(size.settle_seconds)
    watch, beside = (
        Watch(triggerer.pid, lambda: emulator.count("list_messages")),
        Watch(emulator.pid, lambda: 0),
    )
    since = time.time()
    time.sleep(size.window_seconds)
    watch.window()
    beside.window()
    until = time.time()
    seen, streams = watch.seen(), emulator.open_streams()
    put_at = {}
    for inbox in chosen_of(count, size.samples):
        put_at[inbox] = time.time()
        emulator.put(inbox, {"number": 1})
        time.sleep(APART_SECONDS)
    time.sleep(size.settle_seconds)
    noticed = triggerer.end()
    return Bare(
        count,
        polled_seconds,
        seen,
        beside.seen().shares[0],
        streams,
        noticed.ended,
        noticed.lateness(since, until),
        noticed.collections(since, until),
        noticed_seconds(noticed, put_at),
        len(put_at),
    )


def noticed_seconds(noticed: Noticed, put_at: dict[str, float]) -> list[float]:
    """Seconds from each message to the first event of its inbox after it, where there was one."""
    first = {inbox: noticed.first_event(inbox, at) for inbox, at in put_at.items()}
    return [at - put_at[inbox] for inbox, at in first.items() if at is not None]


def _wait(done: Callable[[], bool], seconds: float = 300.0) -> None:
    deadline = time.monotonic() + seconds
    with contextlib.suppress(OSError):
        while not done() and time.monotonic() < deadline:
            time.sleep(0.5)


def stored_rows(shape: str, count: int, stored: Stored) -> list[Row]:
    """What is shown of the DAG files of so many inboxes."""
    what = f"{count} inboxes, {shape}"
    per_file = min(files.PER_FILE, count)
    return [
        alone(f"{what}: time to parse a file of {per_file} inboxes", "s", stored.parsed),
        alone(f"{what}: from DAG files to triggers in the database", "s", [stored.seconds]),
        alone(f"{what}: rows of triggers", "rows", [stored.rows]),
    ]


def waiting_rows(count: int, stored: Stored, waiting: Waiting) -> list[Row]:
    """What is shown of triggerers that wait."""
    what, load, per_1000 = f"{count} inboxes, triggerers: {waiting.triggerers}", waiting.load, count / 1000
    cores = psutil.cpu_count() or 1
    return [
        alone(f"{what}: until each inbox was polled", "s", [waiting.polled_seconds]),
        *(
            alone(
                f"{what}: CPU of {group}, per 1000 inboxes",
                "% of a core",
                [load.share(group) / per_1000],
                point=Point(CPU, f"{REAL}: {group}", count) if group in (RUNNERS, SUPERVISORS) else None,
            )
            for group in (RUNNERS, SUPERVISORS, POSTGRES, SCHEDULER, EMULATOR)
        ),
        alone(
            f"{what}: memory, per 1000 inboxes",
            "MB",
            [waiting.megabytes / per_1000],
            point=Point(MEMORY, REAL, count),
        ),
        alone(f"{what}: sockets of the processes that run triggers", "sockets", [waiting.sockets]),
        *_noticed_rows(what, waiting.noticed, waiting.samples, Point(NOTICE, REAL, count)),
        alone(f"{what}: inboxes without a trigger in the database", "inboxes", [count - stored.rows], NONE),
        alone(f"{what}: triggers that no triggerer runs", "triggers", [waiting.unassigned], NONE),
        alone(f"{what}: triggerers without a heartbeat for 30 s", "triggerers", [waiting.late], NONE),
        alone(f"{what}: inboxes without an event stream", "inboxes", [count - waiting.streams], NONE),
        alone(f"{what}: warnings of a blocked event loop before", "warnings", [waiting.blocked_before]),
        alone(f"{what}: warnings of a blocked event loop", "warnings", [waiting.blocked], NONE),
        *_poll_rows(what, count, load.seconds, waiting.polls),
        alone(f"{what}: CPU of {MACHINE}", "% of its cores", [load.share(MACHINE) / cores], NOT_ALL),
    ]


def bare_rows(bare: Bare) -> list[Row]:
    """What is shown of watchers on one event loop."""
    what, seen, per_1000 = f"{bare.count} inboxes, {BARE}", bare.seen, bare.count / 1000
    window = seen.windows[0]
    blocked = [seconds for seconds in bare.lateness if seconds + 0.1 > LATE_SECONDS]
    return [
        alone(f"{what}: until each inbox was polled", "s", [bare.polled_seconds]),
        alone(
            f"{what}: CPU, per 1000 inboxes",
            "% of a core",
            [seen.shares[0] / per_1000],
            point=Point(CPU, BARE, bare.count),
        ),
        alone(f"{what}: CPU of the emulator", "% of a core", [bare.emulator_share]),
        alone(
            f"{what}: memory, per 1000 inboxes",
            "MB",
            [seen.megabytes / per_1000],
            point=Point(MEMORY, BARE, bare.count),
        ),
        alone(f"{what}: sockets", "sockets", [seen.sockets]),
        alone(f"{what}: lateness of the event loop", "ms", [each * 1000 for each in bare.lateness]),
        alone(f"{what}: longest lateness of the event loop", "ms", [max(bare.lateness, default=0.0) * 1000]),
        alone(f"{what}: longest collection of garbage", "ms", [max(bare.collections, default=0.0) * 1000]),
        *_noticed_rows(what, bare.noticed, bare.samples, Point(NOTICE, BARE, bare.count)),
        alone(f"{what}: triggers that ended by themselves", "triggers", [bare.ended], NONE),
        alone(f"{what}: inboxes without an event stream", "inboxes", [bare.count - bare.streams], NONE),
        alone(f"{what}: times that Airflow would call the loop blocked", "times", [len(blocked)], NONE),
        *_poll_rows(what, bare.count, window.seconds, window.polls),
        alone(f"{what}: CPU, of one core", "%", [seen.shares[0]], NOT_ALL),
    ]


def _noticed_rows(what: str, noticed: list[float], samples: int, point: Point) -> list[Row]:
    rows = [alone(f"{what}: put to event", "s", noticed, point=point)] if noticed else []
    missing = samples - len(noticed)
    late = f"{what}: messages without an event after {NOTICED_SECONDS:g} s"
    return [*rows, alone(late, "messages", [missing], NONE)]


def _poll_rows(what: str, count: int, seconds: float, polls: int) -> list[Row]:
    """Polls beside those due; nothing of a window in which not each inbox is polled."""
    if seconds < files.POLL_SECONDS:
        return []
    due = count * seconds / files.POLL_SECONDS
    return [alone(f"{what}: polls made, of those due", "%", [polls / due * 100], MOST)]


def limits_met(rows: Sequence[Row]) -> list[str]:
    """The rows whose limit was met, those of the fewest inboxes first."""
    return [f"{row.what}: {row.ours.median:g} {row.unit} ({row.target})" for row in rows if row.met is False]
