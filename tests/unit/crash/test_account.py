from __future__ import annotations

import pytest

from tests.crash.account import Account, table
from tests.crash.recipes import Recipe, work_done

PUT_AT = 1_000_000.0


def account(*ids: str) -> Account:
    return Account("listen", dict.fromkeys(ids, PUT_AT))


def run_of(message_id: str, state: str = "success") -> dict:
    message = {"id": message_id}
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


def test_runs_of_other_messages_are_not_counted():
    counted = account("a")
    counted.count_runs([run_of("b"), {"conf": None, "state": "success"}])
    assert counted.lost == 1


def test_a_duplicate_that_does_not_say_so_is_hidden():
    counted = account("a", "b", "c")
    again = [{"id": "b", "redelivered": True}, {"id": "c", "redelivered": False}]
    counted.count_deliveries([{"id": each, "redelivered": False} for each in "abc"] + again)
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


def test_the_table_has_a_line_for_each_recipe():
    lines = table([account("a"), account("a", "b")]).splitlines()
    assert lines[0].split()[:3] == ["recipe", "messages", "lost"]
    assert [line.split()[1:3] for line in lines[1:]] == [["1", "1"], ["2", "2"]]
