"""The rows that each benchmark makes of its samples: what they say, their units, and what they are beside."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from airflow_provider_workflow.emulator.server import EmulatorServer
from benchmarks import client, growth, latency, page
from benchmarks.peers import peers
from benchmarks.peers.trial import Counts
from benchmarks.peers.ways import OURS, WATCHED, Way
from benchmarks.results import Row
from benchmarks.scale import finished, watchers
from benchmarks.scale import latency as steps
from benchmarks.service import Service
from benchmarks.throughput import Work
from benchmarks.watchers import LISTENING, POLLING, SLEEPING, Trigger


def medians(rows: Sequence[Row], prefix: str = "") -> dict[str, float]:
    """The median of ours in each row that begins so, by the rest of what it says."""
    return {row.what.removeprefix(prefix): row.ours.median for row in rows if row.what.startswith(prefix)}


def test_each_way_of_ours_stands_beside_the_floor_and_beside_the_queue_with_the_aim_for_it() -> None:
    samples = {**{name: [2.0, 3.0] for name in latency.OURS}, "floor": [2.0, 2.0], "queue": [4.0, 1.0]}
    rows = latency.rows(samples)
    assert len({(row.what, row.beside) for row in rows}) == len(rows) == 2 * len(latency.OURS)
    ratios = {row.beside: (row.ratio and row.ratio.median, row.at_most) for row in rows}
    assert ratios == {latency.BESIDE["floor"]: (1.25, 1.2), latency.BESIDE["queue"]: (1.75, 1.0)}


def test_the_steps_of_the_notice_recipe_add_up_to_its_total_beside_that_of_the_floor() -> None:
    count = len(steps.STEPS)
    ours = [(1.0,) * count, (2.0,) * count]
    total, own, *step_rows = steps.rows({steps.NOTICE: ours, steps.FLOOR: [(1.0,) * count, (1.0,) * count]})
    assert (total.ours.median, total.ratio and total.ratio.median) == (1.5 * count, 1.5)
    assert (own.ours.median, own.theirs and own.theirs.median) == (1.5 * len(steps.OWN), len(steps.OWN))
    assert [row.ours.median for row in step_rows] == [1.5, 1.0] * count
    assert [row.point and row.point.x for row in step_rows] == list(steps.SHOWN.values()) * count
    assert {row.point and row.point.curve for row in step_rows} == set(steps.STEPS)


def test_what_browsers_add_to_the_api_server_is_taken_round_by_round() -> None:
    answers = [{"answered": 500, "failed": 0}, {"answered": 250, "failed": 3}]
    share, added, requests, failures = page.rows(50, 30.0, [7.0, 10.0], [4.0, 6.0], answers)
    assert (share.ours.median, share.theirs and share.theirs.median) == (8.5, 5.0)
    assert (added.ours.low, added.ours.high, added.aim) == (3.25, 3.75, "at most 5")
    assert requests.ours.median == 12.5
    assert (failures.ours.median, failures.aim) == (1.5, "at most 0, missed")


def test_idle_triggers_of_peers_cost_what_goes_beyond_a_triggerer_without_any(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shares = {0: 1.0, LISTENING: 3.0, POLLING: 5.0}
    triggers: list[int | Trigger] = []

    @contextmanager
    def watching(count: int, trigger: Trigger, *_: object) -> Iterator[int | Trigger]:
        assert count == (0 if trigger == SLEEPING else WATCHED)
        triggers.append(trigger if count else 0)
        yield triggers[-1]

    monkeypatch.setattr(peers, "watching", watching)
    monkeypatch.setattr(peers, "measure_triggerer", lambda case, *_: SimpleNamespace(share=shares[case]))
    ways = [
        Way("ours", "polled", OURS, lambda number: None, LISTENING, POLLING, polls=2.0),
        Way("other", "pushed", OURS, lambda number: None, LISTENING),
    ]
    rows = peers.idle_rows(SimpleNamespace(ways=ways, connections={}, env={}), 30.0)  # type: ignore[arg-type]
    idle = f"CPU of {WATCHED} idle triggers"
    assert medians(rows, f"{ways[0]}: ") == pytest.approx({idle: 2.0, "CPU per 1000 polls": 20.0})
    assert medians(rows, f"{ways[1]}: ") == {idle: 2.0}
    assert len(triggers) == 3


def test_rows_of_a_peer_say_what_was_late_lost_or_doubled_and_no_time_where_there_is_none() -> None:
    prefix = "way, 4 messages among kills of the triggerer: "
    rows = peers.rows_of("way", [1.0, None, 3.0], Counts(4, lost=1, twice=2))
    assert medians(rows, "way: ") == {"sent to its task running": 2.0, "not handled in time": 1}
    assert medians(rows, prefix) == {"lost": 1, "handled more than once": 2}
    rows = peers.rows_of("way", [None, None], Counts(4, lost=4, twice=0))
    assert medians(rows, "way: ") == {"not handled in time": 2}


def test_what_a_task_took_is_divided_by_its_dag_runs() -> None:
    rows = growth.work_rows("100", [Work(count=100, seconds=2.0, used=0.5, grown=9.0)])
    assert {row.what: (row.ours.median, row.unit) for row in rows} == {
        "100: time per DAG run": (20.0, "ms"),
        "100: CPU of the task per DAG run": (5.0, "ms"),
        "100: memory that the task grows by": (9.0, "MB"),
    }


def test_finished_messages_are_compared_with_the_first_way_which_needs_no_service() -> None:
    assert [way.name == finished.BY_REST for way in finished.WAYS] == [True, False, False, False, False]
    assert len({way.name for way in finished.WAYS}) == len(finished.WAYS)


@pytest.mark.parametrize(("count", "number"), [(1, 1), (1000, 1), (1001, 2), (10_000, 10)])
def test_there_are_as_many_triggerers_as_their_capacity_demands(count: int, number: int) -> None:
    fleet = watchers.Fleet(None, None, None, count)  # type: ignore[arg-type]
    assert len(set(fleet.triggerers)) == number


def _counted(monkeypatch: pytest.MonkeyPatch, kind: type) -> list[object]:
    """The calls that clients of a class will have sent."""
    calls: list[object] = []
    send = kind.send  # type: ignore[attr-defined]
    monkeypatch.setattr(kind, "send", lambda self, call: calls.append(call) or send(self, call))  # type: ignore[func-returns-value]
    return calls


def test_calls_of_our_client_stand_beside_as_many_of_bare_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    rounds, calls = 1, 2
    monkeypatch.setattr(client, "QUICK_ROUNDS", rounds)
    monkeypatch.setattr(client, "CALLS", calls)
    with EmulatorServer() as emulator:

        @contextmanager
        def service() -> Iterator[Service]:
            yield Service(json.loads(emulator.connection_json()), os.getpid())

        calls_of_clients = [
            _counted(monkeypatch, kind) for kind in (client.WorkflowClient, client.AsyncWorkflowClient)
        ]
        monkeypatch.setattr(client, "service", service)
        rows = client.run(quick=True)
        counts = [emulator.count(operation) for operation in ("lease", "list_messages")]

    of_each_way = (rounds + 1) * calls  # with the round that warms up
    assert counts == [4 * of_each_way] * 2
    token = 1  # which both clients share
    assert [len(calls) for calls in calls_of_clients] == [2 * of_each_way + token, 2 * of_each_way]
    assert len({(row.what, row.beside) for row in rows}) == len(rows) == 8
    assert {row.beside for row in rows} == {"bare requests", "bare aiohttp"}
    assert {row.unit: row.aim.partition(",")[0] for row in rows} == {
        "1/s": "at least 0.8",
        "ms": "at most 1.25",
    }
