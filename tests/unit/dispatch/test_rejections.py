"""Rejected messages: who is blamed, and how they become dead letters."""

from __future__ import annotations

import json
import logging
from contextlib import nullcontext
from typing import Any
from unittest.mock import Mock

import pytest
from airflow.sdk.execution_time.comms import TriggerDagRun

from airflow_provider_workflow.client.errors import WorkflowError
from airflow_provider_workflow.dispatch.dispatcher import Dispatcher
from airflow_provider_workflow.dispatch.run_errors import TargetError
from airflow_provider_workflow.dispatch.runs import DEAD_LETTER_PREFIX, run_id_of
from tests.unit.fake_clock import FakeClock
from tests.unit.fake_stats import FakeStats
from tests.unit.fakes import Fault, api_error, lost
from tests.unit.workbench import Workbench, with_counts

REJECTED = api_error(400, "value_error", "Invalid input for param message: 'a secret' is too long")


def drain(bench: Workbench) -> Dispatcher:
    """A dispatcher whose target has started a run before, after it has drained the inbox."""
    dispatcher = bench.ready_dispatcher(lease_limit=100)
    dispatcher.drain()
    return dispatcher


def reasons(bench: Workbench) -> dict[str, str]:
    return {message_id: conf["reason"] for message_id, conf in bench.dead_letters.items()}


def test_a_message_becomes_no_dead_letter_while_its_target_may_be_at_fault(bench: Workbench) -> None:
    bench.allow_dead_letters(after=1)
    bench.supervisor.fail(REJECTED)
    bench.put("a", "b", lease_count=2)

    with pytest.raises(TargetError):
        bench.dispatcher(attempt=2).drain()
    assert bench.dead_letters == {}
    assert bench.states == {"a": "leased", "b": "leased"}


@pytest.mark.parametrize(("order", "error"), [(("bad", "good"), REJECTED), (("good", "bad"), api_error(500))])
def test_a_run_of_another_message_shows_that_a_message_is_at_fault(
    bench: Workbench, order: tuple[str, str], error: Fault
) -> None:
    bench.allow_dead_letters(after=1)
    bench.supervisor.refuse("bad", error)
    bench.put(*order)
    bench.dispatcher(attempt=2).drain()

    assert reasons(bench) == {"bad": "rejected"}
    assert bench.states == {}


@pytest.mark.parametrize(
    ("after", "kills", "lease_limit"), [(1, 0, 100), (1, 0, 10), (2, 1, 100), (3, 2, 100), (3, 2, 7)]
)
def test_a_target_that_breaks_in_a_drain_makes_no_dead_letters(
    bench: Workbench, clock: FakeClock, after: int, kills: int, lease_limit: int
) -> None:
    bench.allow_dead_letters(after=after)
    bench.put("good", *(f"bad{number:02}" for number in range(60)))
    for _ in range(kills):
        bench.lease(100, 300)
        clock.advance(301)
    bench.supervisor.refuse("bad", REJECTED)

    text = r"20 new messages were rejected in a row .*No message is lost"
    with nullcontext() if kills else pytest.raises(TargetError, match=text):
        bench.dispatcher(lease_limit=lease_limit).drain()
    assert bench.supervisor.started == ["good"]
    assert bench.dead_letters == {}
    assert list(bench.states.values()).count("leased") == (60 if kills else 20)


def test_messages_that_are_known_as_rejected_do_not_count_in_a_row(bench: Workbench) -> None:
    bench.allow_dead_letters(after=4)
    bench.put(*(f"bad{number}" for number in range(40)), lease_count=1)
    bench.put("good", lease_count=2)
    bench.supervisor.refuse("bad", REJECTED)
    drain(bench)

    assert bench.dead_letters == {}
    assert list(bench.states.values()) == ["leased"] * 40


def test_no_message_becomes_a_dead_letter_that_the_target_was_not_asked_about(bench: Workbench) -> None:
    bench.allow_dead_letters()
    bad, sound = [f"bad{number}" for number in range(20)], [f"sound{number}" for number in range(5)]
    bench.put("good", *bad, *sound)
    # The bad ones come before the sound ones, although their delivery counts are lower.
    counts = {"good": 4, **dict.fromkeys(bad, 1), **dict.fromkeys(sound, 4)}
    lease = with_counts(bench.lease(), counts)
    bench.supervisor.refuse("bad", REJECTED)

    with pytest.raises(TargetError):
        bench.ready_dispatcher().drain(lease)
    assert bench.dead_letters == {}
    assert sorted(bench.supervisor.started) == ["good", *sound]


@pytest.mark.parametrize("error", [REJECTED, lost("HTTPStatusError"), api_error(409, "import_errors")])
def test_before_its_last_delivery_a_message_becomes_one_anyway(bench: Workbench, error: Fault) -> None:
    bench.allow_dead_letters()
    bench.supervisor.refuse("a", error)
    bench.put("a", lease_count=3)

    with pytest.raises(TargetError):
        bench.dispatcher(lease_limit=100).drain()
    assert reasons(bench) == {"a": "target"}
    assert bench.states == {}


def test_a_message_on_which_an_expression_fails_needs_no_run_of_another(bench: Workbench) -> None:
    bench.allow_dead_letters()
    bench.put("a", lease_count=2, payload={"list": 1})
    bench.dispatcher({"handle": "length(payload.list) > `1`"}).drain()

    [conf] = bench.dead_letters.values()
    assert (conf["reason"], conf["target_dag_id"]) == ("expression", "handle")
    assert bench.states == {}


def test_a_message_at_fault_without_a_delivery_count_becomes_one_at_once(bench: Workbench) -> None:
    bench.allow_dead_letters()
    bench.supervisor.refuse("bad", REJECTED)
    bench.put("bad", "good")
    bench.dispatcher().drain(with_counts(bench.lease(), {"bad": None, "good": None}))
    assert reasons(bench) == {"bad": "rejected"}

    bench.supervisor.faults.clear()
    bench.put("bad")
    bench.dispatcher().drain(with_counts(bench.lease(), {"bad": None}))
    assert bench.supervisor.started == ["good"]
    assert bench.states == {}


def test_a_hand_off_on_its_last_safe_delivery_becomes_one_if_the_target_is_missing(bench: Workbench) -> None:
    bench.allow_dead_letters()
    bench.put("last", "known", lease_count=3)
    bench.put("new")
    bench.start_before("known")
    lease = bench.lease()
    bench.supervisor.dags.discard("handle")
    dispatcher = bench.dispatcher()

    with pytest.raises(TargetError):
        dispatcher.drain(lease)
    assert reasons(bench) == {"last": "target"}
    assert dispatcher.counts.result["existing"]["ids"] == ["known"]
    assert bench.states == {"new": "available"}


def test_a_run_that_a_user_made_up_is_not_the_run_of_the_message(bench: Workbench) -> None:
    bench.allow_dead_letters(after=1)
    bench.put("a", "good")
    bench.start_before("a", user="somebody")
    dispatcher = bench.ready_dispatcher()
    dispatcher.drain()

    assert reasons(bench) == {"a": "rejected"}
    assert "a user or another message started it" in bench.dead_letters["a"]["cause"]
    assert dispatcher.counts.result["existing"]["count"] == 0


def test_a_dead_letter_that_a_user_made_up_is_not_that_of_the_message(bench: Workbench) -> None:
    bench.allow_dead_letters()
    bench.put("a", lease_count=2)
    key = "dead", run_id_of("a", bench.inbox_id, DEAD_LETTER_PREFIX)
    bench.supervisor.runs[key] = {"inbox_id": bench.inbox_id, "message_id": "a"}
    bench.supervisor.users[key] = "somebody"
    bench.dispatcher().drain()

    assert bench.supervisor.started == ["a"]
    assert bench.states == {}


def test_a_rejected_message_becomes_a_dead_letter_with_its_third_delivery(bench: Workbench) -> None:
    bench.allow_dead_letters()
    bench.supervisor.refuse("bad", REJECTED)
    bench.put("bad1", lease_count=1)
    bench.put("bad2", lease_count=2, payload={"n": [1, None]})
    bench.put("good1", "good2")
    dispatcher = drain(bench)

    assert bench.states == {"bad1": "leased"}
    conf = bench.supervisor.runs["dead", run_id_of("bad2", bench.inbox_id, DEAD_LETTER_PREFIX)]
    message = json.loads(conf.pop("message_json"))
    assert conf == {
        "connection_id": bench.hook.workflow_conn_id,
        "inbox_id": bench.inbox_id,
        "inbox_name": "orders",
        "message_id": "bad2",
        "created_at": message["created_at"],
        "delivery_count": 3,
        "reason": "rejected",
        "cause": "value_error (status 400): param message",
        "target_dag_id": "handle",
        "target_run_id": bench.run_id("bad2"),
    }
    assert message["payload"] == {"n": [1, None]}
    assert message["message_attributes"]["lease_count"] == 3
    assert dispatcher.counts.result["dead_lettered"] == {"count": 1, "ids": ["bad2"]}
    assert dispatcher.counts.result["rejected"] == {"count": 1, "ids": ["bad1"]}
    assert not dispatcher.counts.causes


def test_it_is_counted_and_logged_once_without_its_payload(
    bench: Workbench, fake_stats: FakeStats, caplog: pytest.LogCaptureFixture
) -> None:
    bench.allow_dead_letters()
    bench.supervisor.refuse("bad", REJECTED)
    bench.put("bad", lease_count=2, payload="a secret")
    bench.put("good")
    drain(bench)

    assert fake_stats.totals["dead_lettered"] == 1
    [line] = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert line.startswith(
        "Inbox orders: message bad is a dead letter (rejected): started the run workflow__dead__"
    )
    assert "a secret" not in caplog.text


def test_a_dead_letter_that_was_not_acknowledged_is_found_again(bench: Workbench) -> None:
    bench.allow_dead_letters(after=1)
    bench.supervisor.refuse("bad", REJECTED)
    bench.put("bad", "good")
    bench.service.fault("status", operation="ack", status=403, times=None)
    with pytest.raises(WorkflowError):
        drain(bench)
    bench.service.emulator.faults.clear()
    bench.supervisor.faults.clear()
    bench.service.store.messages.expire()
    dispatcher = drain(bench)

    assert bench.supervisor.started == ["good"]
    assert list(bench.dead_letters) == ["bad"]
    assert dispatcher.counts.result["dead_lettered"]["ids"] == ["bad"]
    assert bench.states == {}


def test_a_message_with_a_run_never_becomes_a_dead_letter(bench: Workbench) -> None:
    bench.allow_dead_letters(after=1, unmatched="dead_letter")
    bench.put("a", lease_count=1)
    bench.start_before("a")
    dispatcher = bench.dispatcher(match="payload.wanted")
    dispatcher.drain()

    assert dispatcher.counts.result["existing"]["ids"] == ["a"]
    assert bench.dead_letters == {}
    assert bench.states == {}


@pytest.mark.parametrize(
    ("error", "ending", "existing"),
    [(api_error(503), nullcontext(), ["a"]), (lost("ReadError"), pytest.raises(TargetError), [])],
    ids=["503", "no answer"],
)
def test_a_message_whose_run_was_started_although_the_answer_is_an_error_becomes_none(
    bench: Workbench, error: Fault, ending: Any, existing: list[str]
) -> None:
    def stored_and_failed(request: TriggerDagRun) -> Fault | None:
        if not request.run_id.startswith("workflow__a__"):
            return None
        bench.start_before("a")
        return error

    bench.allow_dead_letters(after=1)
    bench.supervisor.faults.append(stored_and_failed)
    bench.put("a", lease_count=3)
    bench.put("good")
    dispatcher = bench.ready_dispatcher(lease_limit=100)
    with ending:
        dispatcher.drain()
    assert bench.dead_letters == {}
    assert dispatcher.counts.result["existing"]["ids"] == existing


def test_a_message_that_may_have_a_run_becomes_no_dead_letter(bench: Workbench) -> None:
    bench.allow_dead_letters(after=1)
    bench.supervisor.refuse("bad", REJECTED)
    bench.put("bad", "good")
    bench.ti.on_look = Mock(side_effect=lost("ConnectError"))
    drain(bench)
    assert bench.dead_letters == {}
    assert bench.states == {"bad": "leased"}


@pytest.mark.parametrize(
    ("unmatched", "dead_letters"), [("lease", {}), ("dead_letter", {"b": ("unmatched", None)})]
)
def test_an_unmatched_message_becomes_one_only_if_that_was_chosen(
    bench: Workbench, unmatched: str, dead_letters: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    bench.allow_dead_letters(unmatched=unmatched)
    bench.put("a", lease_count=1)
    bench.put("b", lease_count=2)
    bench.dispatcher(match="payload.wanted").drain(bench.lease())

    letters = bench.dead_letters.items()
    assert {message: (conf["reason"], conf["target_dag_id"]) for message, conf in letters} == dead_letters
    assert set(bench.states) == {"a", "b"} - set(dead_letters)
    left_message_ids = [
        message for message in "ab" if f"message {message}, which is left to its lease" in caplog.text
    ]
    assert left_message_ids == [*bench.states], "no line says so of a dead letter"


def test_what_neither_dag_takes_is_left_to_its_lease_and_both_causes_are_told(
    bench: Workbench, caplog: pytest.LogCaptureFixture
) -> None:
    bench.allow_dead_letters()
    bench.supervisor.refuse("bad", REJECTED)
    bench.supervisor.refuse("dead__bad", api_error(400, "import_errors"))
    bench.put("bad", lease_count=2)
    bench.put("good")
    dispatcher = drain(bench)

    assert bench.states == {"bad": "leased"}
    assert list(dispatcher.counts.causes) == ["bad"]
    [line] = [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
    assert "param message" in line
    assert "import_errors" in line
    assert "import_errors" in dispatcher.counts.rejected_text()


def test_a_dead_letter_dag_that_is_deleted_meanwhile_is_named_with_its_argument(
    bench: Workbench, caplog: pytest.LogCaptureFixture
) -> None:
    bench.allow_dead_letters()
    bench.supervisor.refuse("bad", REJECTED)
    bench.supervisor.refuse("dead__bad", api_error(404, "not_found"))
    bench.put("bad", lease_count=2)
    bench.put("good")
    drain(bench)

    assert "The DAG 'dead' was not found. Deploy it, or correct dead_letter_dag_id" in caplog.text


def test_no_dead_letter_is_started_for_a_message_that_is_no_longer_held(
    bench: Workbench, fake_clock: FakeClock
) -> None:
    bench.allow_dead_letters()
    bench.put("bad", lease_count=3)

    def stopped(request: TriggerDagRun) -> Fault | None:
        # The process was stopped for so long that another one may hold the message by now.
        fake_clock.advance(300)
        return REJECTED if request.dag_id == "handle" else None

    bench.supervisor.faults.append(stopped)
    with pytest.raises(TargetError):
        bench.dispatcher().drain()

    assert bench.dead_letters == {}


def test_no_run_is_started_after_its_lease_ended_while_airflow_was_asked(
    bench: Workbench, fake_clock: FakeClock
) -> None:
    bench.allow_dead_letters()
    bench.put("a", lease_count=1)
    bench.ti.on_look = lambda: fake_clock.advance(300)
    drain(bench)
    assert bench.supervisor.started == []


def test_a_target_that_breaks_beside_one_that_works_makes_no_dead_letters(bench: Workbench) -> None:
    bench.allow_dead_letters(after=1)
    bench.supervisor.dags.add("fine")
    bench.supervisor.refuse("bad", REJECTED)
    bench.put("good")
    for number in range(40):
        bench.put(f"bad{number}")
        bench.put(f"fine{number}", payload={"of": "fine"})
    dispatcher = bench.dispatcher({"fine": "payload.of", "handle": "payload"}, lease_limit=100)
    dispatcher.started.update(("fine", "handle"))

    with pytest.raises(TargetError, match="20 new messages were rejected in a row for the DAG 'handle'"):
        dispatcher.drain()
    assert bench.dead_letters == {}


def test_rejections_by_two_targets_are_not_counted_as_those_of_one(bench: Workbench) -> None:
    bench.supervisor.dags.add("other")
    bench.supervisor.refuse("bad", REJECTED)
    for number in range(10):
        bench.put(f"bad{number}")
        bench.put(f"badother{number}", payload={"of": 1})
    bench.put("sound")
    dispatcher = bench.dispatcher({"other": "payload.of", "handle": "payload"}, lease_limit=100)
    dispatcher.started.update(("handle", "other"))
    dispatcher.drain()

    assert bench.supervisor.started == ["sound"]
