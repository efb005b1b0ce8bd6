"""The account of a crash test."""

from __future__ import annotations

import json

import pytest

from tests.crash.account import Account
from tests.crash.recipes import Recipe, work_done


def account(*ids: str) -> Account:
    return Account("listen", dict.fromkeys(ids, 1_000_000.0), {each: {"n": 1} for each in ids})


def run_of(message_id: str, state: str = "success", n: int = 1) -> dict:
    message = {"id": message_id, "payload": {"n": n}}
    return {"conf": {"message": message}, "state": state, "queued_at": "1970-01-12T13:47:10Z"}


def recipe(once: bool = True) -> Recipe:
    return Recipe("listen", "inbox", work_done, once=once)


def test_one_successful_run_for_each_message_keeps_the_promise():
    counted = account("a", "b")
    counted.count_runs([run_of("a"), run_of("b")])
    assert recipe().kept(counted)
    assert counted.longest_delay == pytest.approx(30)


@pytest.mark.parametrize(
    ("ids", "runs", "what"),
    [
        ("ab", [run_of("a")], {"lost": 1, "duplicates": 0}),
        ("a", [run_of("b"), {"conf": None, "state": "success"}], {"lost": 1}),
        ("a", [run_of("a"), run_of("a")], {"lost": 0, "duplicates": 1}),
        ("a", [run_of("a"), run_of("a", "queued")], {"unfinished": 1}),
        ("a", [run_of("a", n=2)], {"changed": 1}),
    ],
)
def test_what_breaks_the_promise_is_counted(ids, runs, what):
    counted = account(*ids)
    counted.count_runs(runs)
    assert {name: getattr(counted, name) for name in what} == what
    assert not recipe().kept(counted)
    assert recipe(once=False).kept(counted) is (what == {"lost": 0, "duplicates": 1})


def test_each_delivery_to_a_dag_counts():
    counted = account("a", "b", "c")
    counted.count_deliveries({"id": message_id} for message_id in "abb")
    assert (counted.lost, counted.duplicates) == (1, 1)


def test_work_that_was_done_is_counted_by_its_files(tmp_path):
    (tmp_path / "a").touch()
    counted = account("a", "b")
    work_done(counted, None, tmp_path)
    assert counted.lost == 1


def dead_letter_of(message_id: str, payload: object) -> dict:
    text = json.dumps({"id": message_id, "payload": payload})
    return {"conf": {"message_json": text}, "state": "success"}


def test_a_dead_letter_is_what_was_done_for_its_message():
    counted = account("a", "b")
    counted.payloads = {"a": {"n": 1}, "b": {"n": 2}}
    counted.count_runs([run_of("b", n=2)])
    counted.count_dead_letters([dead_letter_of("a", {"n": 1}), dead_letter_of("b", {"n": 1})])
    assert (counted.lost, counted.duplicates, counted.dead_letters, counted.changed) == (0, 1, 2, 1)


def test_with_a_dead_letter_dag_no_message_may_be_quarantined():
    counted = account("a")
    counted.count_runs([run_of("a")])
    counted.count_leases([{"status": "quarantined", "lease_count": 5}])
    assert recipe().kept(counted)
    assert not Recipe("listen", "inbox", work_done, dead_letter_dag_id="dead").kept(counted)


def test_a_run_is_that_of_all_messages_with_its_key():
    counted = account("a", "b", "c")
    counted.payloads = {"a": {"key": 1}, "b": {"key": 1}, "c": {"key": 2}}
    runs = [run_of("a"), run_of("c")]
    for run, key in zip(runs, (1, 2), strict=True):
        run["conf"]["message"]["payload"] = {"key": key}
    counted.count_runs(runs, once_per_key=True)
    assert (counted.lost, counted.duplicates, counted.changed) == (0, 0, 0)
    counted.count_runs(runs[:1], once_per_key=True)
    assert counted.duplicates == 2


def test_what_the_service_says_of_leases_is_counted_and_runs_of_other_messages_are_not():
    counted = account("a", "b")
    counted.count_runs([run_of("c")])
    counted.count_leases([{"status": "acked", "lease_count": 3}, {"status": "quarantined", "lease_count": 5}])
    assert (counted.done, counted.duplicates) == ({}, 0)
    assert (counted.quarantined, counted.redeliveries, counted.most_attempts) == (1, 6, 5)
