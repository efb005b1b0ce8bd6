"""What is made of what was seen of processes, and the parts that need no Airflow."""

from __future__ import annotations

import os
import socket

import pytest

from airflow_provider_workflow.emulator.server import EmulatorServer
from benchmarks import polling as bare
from benchmarks.process import Seen, Watch, Window, sockets
from benchmarks.results import Row
from benchmarks.waiting import Round, rows
from benchmarks.watchers import Watchers, listening, of_queues, polling, sleeping

IDLE = Seen([Window(5, 0.05, 0)], 130, 9)
OURS = Seen([Window(5, 0.15, 100), Window(5, 0.25, 100)], 150, 20)
THEIRS = Seen([Window(5, 5.05, 50), Window(5, 5.05, 0)], 200, 30)
BARE = Seen([Window(5, 0.1, 100), Window(5, 0.1, 100)], 50, 10)
BARE_IN_TICKS = Seen([Window(5, 0.05, 100), Window(5, 0.05, 100)], 50, 10)


def found(**different: Seen) -> list[Row]:
    bare = {"bare": BARE, "bare_in_ticks": BARE_IN_TICKS}
    seen = {"polling": OURS, "listening": OURS, **bare, "queues": THEIRS, "sleeping": IDLE, **different}
    return rows(Round(100, **seen), IDLE)


def test_a_share_is_of_one_core() -> None:
    assert OURS.shares == pytest.approx([3, 5])


def test_what_a_poll_costs_leaves_out_what_the_process_takes_anyway() -> None:
    assert OURS.per_1000_polls() == pytest.approx([1.5, 2.5])
    assert OURS.per_1000_polls(idle_share=1) == pytest.approx([1, 2])
    assert THEIRS.per_1000_polls(idle_share=1) == [pytest.approx(100), None]


def test_polls_stand_beside_the_bare_loop_and_beside_the_peer() -> None:
    beside_bare, beside_bare_in_ticks, beside_peer = found()[:3]
    assert (beside_bare.ours.median, beside_bare.met) == (pytest.approx(1.5), False)
    assert beside_bare.ratio is not None
    assert beside_bare.ratio.median == pytest.approx(1.5)
    assert beside_bare_in_ticks.ratio is not None
    assert (beside_bare_in_ticks.ratio.median, beside_bare_in_ticks.met) == (pytest.approx(3), None)
    assert beside_peer.ratio is not None
    assert (beside_peer.ratio.median, beside_peer.ratio.n) == (pytest.approx(0.01), 1)


def test_a_pace_that_was_not_kept_is_said() -> None:
    assert {row.beside for row in found()[3:]} >= {"SqsSensorTrigger, 5 s polls (5.0 a second seen, of 20)"}
    assert {row.beside for row in found(queues=OURS)[3:]} >= {"SqsSensorTrigger, 5 s polls"}


def test_what_airflow_takes_for_triggers_stands_beside_ours() -> None:
    row = next(row for row in found() if row.beside.startswith("triggers that only wake"))
    assert (row.ours.median, row.theirs and row.theirs.median) == (pytest.approx(4), pytest.approx(1))


def test_memory_and_sockets_are_shown_of_both_ways_to_wait() -> None:
    shown = {row.what: row.ours.median for row in found()}
    for way in ("5 s polls", "event streams"):
        assert shown[f"100 watchers, {way}: memory"] == 150
        assert shown[f"100 watchers, {way}: sockets"] == 20


@pytest.mark.parametrize(
    "watchers", [polling(3), listening(3, 60), sleeping(3), of_queues(3, "http://localhost/1")]
)
def test_the_dag_file_of_watchers_is_python(watchers: Watchers) -> None:
    compile(watchers.dag_file, "watchers.py", "exec")
    assert "range(3)" in watchers.dag_file


def test_what_listens_is_left_alone_until_its_polls_are_far_apart() -> None:
    assert listening(1, 60).settle_seconds == bare.SETTLE_SECONDS
    assert listening(1, 60, poll_interval=15).settle_seconds == bare.SETTLE_SECONDS + 15 + 30


def test_a_watch_tells_of_windows_one_after_the_other() -> None:
    made = iter((10, 13, 20))
    watch = Watch(os.getpid(), lambda: next(made))
    watch.window()
    watch.window()
    seen = watch.seen()
    assert [each.polls for each in seen.windows] == [3, 7]
    assert all(each.used > 0 for each in seen.windows)
    assert seen.megabytes > 10


def test_open_sockets_are_counted() -> None:
    before = sockets(os.getpid())
    ends = socket.socketpair()
    assert sockets(os.getpid()) == before + 2
    for end in ends:
        end.close()


@pytest.mark.parametrize("tick", [0.0, 0.002])
async def test_the_bare_loop_polls_every_inbox(tick: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bare, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(bare, "SETTLE_SECONDS", 0)
    with EmulatorServer() as service:
        ids = [service.open_inbox(f"inbox_{n}") for n in range(2)]
        seen = await bare.poll(service.base_url, service.token(), ids, windows=30, tick=tick)
        assert service.count("list_messages") > 2
    assert len(seen.windows) == 30
    assert seen.polls_per_second > 0


async def test_a_bare_loop_that_is_refused_measures_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bare, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(bare, "SETTLE_SECONDS", 0)
    with EmulatorServer() as service:
        inbox_id = service.open_inbox("inbox")
        with pytest.raises(KeyError):
            await bare.poll(service.base_url, "no token", [inbox_id], windows=100, tick=0.0)
