from __future__ import annotations

import json

import pytest

from tests.crash.account import Account
from tests.crash.recipes import Recipe, work_done

PUT_AT = 1_000_000.0


def account(*ids: str) -> Account:
    return Account("listen", dict.fromkeys(ids, PUT_AT), {each: {"n": 1} for each in ids})


def run_of(message_id: str, state: str = "success", n: int = 1) -> dict:
    message = {"id": message_id, "payload": {"n": n}}
    return {"conf": {"message": message}, "state": state, "queued_at": "1970-01-12T13:47:10Z"}


def recipe(once: bool = True) -> Recipe:
    return Recipe("listen", "inbox", work_done, once=once)


def test_a_message_without_a_run_is_lost():
    counted = account("a", "b")
    counted.count_runs([run_of("a")])
    assert (counted.lost, counted.duplicates) == (1, 0)
    assert not recipe().kept(counted)


def test_a_second_run_of_a_message_is_a_duplicate():
    counted = account("a")
    counted.count_runs([run_of("a"), run_of("a")])
    assert (counted.lost, counted.duplicates) == (0, 1)
    assert not recipe().kept(counted)
    assert recipe(once=False).kept(counted)


def test_a_second_run_that_has_not_succeeded_breaks_the_promise_too():
    counted = account("a")
    counted.count_runs([run_of("a"), run_of("a", "queued")])
    assert counted.unfinished == 1
    assert not recipe().kept(counted)


def test_one_successful_run_for_each_message_keeps_the_promise():
    counted = account("a", "b")
    counted.count_runs([run_of("a"), run_of("b")])
    assert recipe().kept(counted)
    assert counted.longest_delay == pytest.approx(30)


def test_a_payload_that_differs_in_its_run_breaks_the_promise():
    counted = account("a")
    counted.count_runs([run_of("a", n=2)])
    assert counted.changed == 1
    assert not recipe().kept(counted)


def test_runs_of_other_messages_are_not_counted():
    counted = account("a")
    counted.count_runs([run_of("b"), {"conf": None, "state": "success"}])
    assert counted.lost == 1


def test_a_duplicate_that_does_not_say_so_is_hidden():
    counted = account("a", "b", "c")
    deliveries = [("a", 1), ("b", 1), ("c", 1), ("b", 2), ("c", 1)]
    counted.count_deliveries(
        {"id": message_id, "message_attributes": {"lease_count": count}} for message_id, count in deliveries
    )
    assert (counted.lost, counted.duplicates, counted.hidden) == (0, 2, 1)


def test_what_the_service_tells_of_leases_is_counted():
    counted = account("a", "b")
    counted.count_leases([{"status": "acked", "lease_count": 3}, {"status": "quarantined", "lease_count": 5}])
    assert (counted.quarantined, counted.redeliveries, counted.most_attempts) == (1, 6, 5)


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
    counted.quarantined = 1
    assert recipe().kept(counted)
    assert not Recipe("listen", "inbox", work_done, has_dead_letters=True).kept(counted)
