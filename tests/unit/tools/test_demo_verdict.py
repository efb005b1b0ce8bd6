"""The verdict counts the messages of the service and the runs of Airflow."""

from __future__ import annotations

from typing import Any

import pytest

from tools.demo_messages import Verdict


def message(message_id: str, status: str = "acked") -> dict[str, Any]:
    return {"id": message_id, "status": status}


def run_of(message_id: str, state: str = "success") -> dict[str, Any]:
    return {"conf": {"inbox_id": "i", "message": {"id": message_id}}, "state": state}


def test_one_run_for_each_message_is_complete() -> None:
    verdict = Verdict.of([message("a"), message("b")], [run_of("b"), run_of("a")], kills=5)

    assert verdict.text == "2 messages, 2 runs, 0 lost, 0 twice, 5 kills"
    assert verdict.holds
    assert verdict.complete


def test_a_demo_without_kills_does_not_speak_of_them() -> None:
    assert Verdict.of([message("a")], [run_of("a")]).text == "1 messages, 1 runs, 0 lost, 0 twice"


@pytest.mark.parametrize("status", ["acked", "quarantined"])
def test_a_message_that_is_not_delivered_any_more_and_has_no_run_is_lost(status: str) -> None:
    verdict = Verdict.of([message("a"), message("b", status)], [run_of("a")])

    assert verdict.text == "2 messages, 1 runs, 1 lost, 0 twice"
    assert not verdict.holds
    assert not verdict.complete


def test_a_message_that_is_still_delivered_is_not_lost_and_not_complete() -> None:
    verdict = Verdict.of([message("a", "leased"), message("b", "available")], [])

    text = "2 in flight, not lost: a leased message starts when its lease ends"
    assert verdict.text == f"2 messages, 0 runs, 0 lost, 0 twice; {text}"
    assert verdict.holds
    assert not verdict.complete


def test_a_second_run_of_a_message_is_twice_whatever_its_run_id() -> None:
    verdict = Verdict.of([message("a"), message("b")], [run_of("a"), run_of("a"), run_of("b")])

    assert verdict.text == "2 messages, 3 runs, 0 lost, 1 twice"
    assert not verdict.holds


@pytest.mark.parametrize("state", ["failed", "running", "queued"])
def test_a_run_that_has_not_succeeded_is_not_complete(state: str) -> None:
    verdict = Verdict.of([message("a")], [run_of("a", state)])

    assert verdict.text == "1 messages, 1 runs, 0 lost, 0 twice; 1 of the runs not successful so far"
    assert verdict.holds
    assert not verdict.complete


def test_a_run_of_a_message_that_the_service_does_not_know_is_not_complete() -> None:
    assert not Verdict.of([message("a")], [run_of("a"), run_of("b")]).complete


@pytest.mark.parametrize("conf", [None, {}, {"message": None}, {"message": {}}])
def test_a_run_that_a_user_started_without_a_message_does_not_count(conf: Any) -> None:
    verdict = Verdict.of([message("a")], [run_of("a"), {"conf": conf, "state": "failed"}])

    assert verdict.complete
