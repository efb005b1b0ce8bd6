"""The account of a crash test."""

from __future__ import annotations

import json
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from tests.crash.__main__ import Plan, report
from tests.crash.account import Account
from tests.crash.poison import nested
from tests.crash.recipes import Recipe, work_done
from tests.crash.topology import Topology


def account(*ids: str) -> Account:
    return Account("listen", dict.fromkeys(ids, 1_000_000.0), {id_: {"n": 1} for id_ in ids})


def run_of(message_id: str, state: str = "success", n: int = 1) -> dict:
    message = {"id": message_id, "payload": {"n": n}}
    return {"conf": {"message": message}, "state": state, "queued_at": "1970-01-12T13:47:10Z"}


def recipe(once: bool = True) -> Recipe:
    return Recipe("listen", "inbox", work_done, once=once)


def test_one_successful_run_for_each_message_keeps_the_promise():
    totals = account("a", "b")
    totals.count_runs([run_of("a"), run_of("b")])
    assert recipe().is_kept(totals)
    assert totals.longest_delay == pytest.approx(30)


@pytest.mark.parametrize(
    ("ids", "runs", "counts"),
    [
        ("ab", [run_of("a")], {"lost": 1, "duplicates": 0}),
        ("a", [run_of("b"), {"conf": None, "state": "success"}], {"lost": 1}),
        ("a", [run_of("a"), run_of("a")], {"lost": 0, "duplicates": 1}),
        ("a", [run_of("a"), run_of("a", "queued")], {"unfinished": 1}),
        ("a", [run_of("a", n=2)], {"changed": 1}),
    ],
)
def test_what_breaks_the_promise_is_counted(ids, runs, counts):
    totals = account(*ids)
    totals.count_runs(runs)
    assert {name: getattr(totals, name) for name in counts} == counts
    assert not recipe().is_kept(totals)
    assert recipe(once=False).is_kept(totals) is (counts == {"lost": 0, "duplicates": 1})


@pytest.mark.parametrize(("runs", "broken"), [([run_of("a")], "none"), ([run_of("a", n=2)], "listen")])
def test_the_result_names_the_recipes_that_broke_their_promise_and_where_it_was_tried(
    runs: list[dict[str, Any]], broken: str, capsys: pytest.CaptureFixture[str]
):
    totals = account("a")
    totals.count_runs(runs)
    saboteur: Any = SimpleNamespace(done=Counter({"kill a worker": 3}), restarts=3, seed=1, kills=2)
    memory: Any = SimpleNamespace(table=str, summary=lambda: "worker 1 to 1")
    plan, topology = Plan(messages=1, minutes=4, seed=1, kills=2), Topology("Celery", {})

    assert report(plan, topology, {recipe(): totals}, saboteur, memory, Counter()) is (broken == "none")
    (result,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("Result: ")]
    assert f"0 lost, 0 twice, 0 sound ones dead letters; broken recipes: {broken}; Celery;" in result
    assert "; as make crash-test MESSAGES=1 MINUTES=4 SEED=1 KILLS=2; MB" in result


def test_each_delivery_to_a_dag_counts():
    totals = account("a", "b", "c")
    totals.count_deliveries({"id": message_id} for message_id in "abb")
    assert (totals.lost, totals.duplicates) == (1, 1)


def test_work_that_was_done_is_counted_by_its_files(tmp_path):
    (tmp_path / "a").touch()
    totals = account("a", "b")
    work_done(totals, None, tmp_path)
    assert totals.lost == 1


def dead_letter_of(message_id: str, payload: object) -> dict:
    text = json.dumps({"id": message_id, "payload": payload})
    return {"conf": {"message_json": text}, "state": "success"}


def test_a_dead_letter_is_what_was_done_for_its_message():
    totals = account("a", "b")
    totals.payloads = {"a": {"n": 1}, "b": {"n": 2}}
    totals.count_runs([run_of("b", n=2)])
    totals.count_dead_letters([dead_letter_of("a", {"n": 1}), dead_letter_of("b", {"n": 1})])
    assert (totals.lost, totals.duplicates, totals.dead_letters, totals.changed) == (0, 1, 2, 1)


def test_a_payload_that_is_nested_too_deep_for_airflow_is_its_text():
    totals = account("a", "b")
    totals.payloads = {"a": nested(300), "b": nested(300)}
    totals.count_dead_letters([dead_letter_of("a", json.dumps(nested(300)))])
    assert totals.changed == 0
    totals.count_dead_letters([dead_letter_of("b", json.dumps(nested(299)))])
    assert totals.changed == 1


def test_with_a_dead_letter_dag_no_message_may_be_quarantined():
    totals = account("a")
    totals.count_runs([run_of("a")])
    totals.count_leases([{"status": "quarantined", "lease_count": 5}])
    assert recipe().is_kept(totals)
    assert not Recipe("listen", "inbox", work_done, dead_letter_dag_id="dead").is_kept(totals)


def test_a_run_is_that_of_all_messages_with_its_key():
    totals = account("a", "b", "c")
    totals.payloads = {"a": {"key": 1}, "b": {"key": 1}, "c": {"key": 2}}
    runs = [run_of("a"), run_of("c")]
    for run, key in zip(runs, (1, 2), strict=True):
        run["conf"]["message"]["payload"] = {"key": key}
    totals.count_runs(runs, once_per_key=True)
    assert (totals.lost, totals.duplicates, totals.changed) == (0, 0, 0)
    totals.count_runs(runs[:1], once_per_key=True)
    assert totals.duplicates == 2


def test_what_the_service_says_of_leases_is_counted_and_runs_of_other_messages_are_not():
    totals = account("a", "b")
    totals.count_runs([run_of("c")])
    totals.count_leases([{"status": "acked", "lease_count": 3}, {"status": "quarantined", "lease_count": 5}])
    assert (totals.done, totals.duplicates) == ({}, 0)
    assert (totals.quarantined, totals.redeliveries, totals.most_attempts) == (1, 6, 5)
