"""Whose fault a rejection is decides whether a message becomes a dead letter, and when."""

from __future__ import annotations

import pytest

from airflow_provider_workflow.dispatch.run_errors import TargetError
from airflow_provider_workflow.dispatch.runs import run_id_of
from tests.unit.counted import counted
from tests.unit.fakes import Fault, api_error, lost
from tests.unit.rejecting import REJECTED, drained, redelivered
from tests.unit.workbench import Workbench

__all__ = ["counted"]


def reasons(bench: Workbench) -> dict[str, str]:
    """Why messages are dead letters, by message id."""
    return {message_id: conf["reason"] for message_id, conf in bench.dead_letters.items()}


def test_a_message_becomes_no_dead_letter_while_its_target_may_be_at_fault(bench: Workbench) -> None:
    bench.allow_dead_letters(after=1)
    bench.supervisor.fail(REJECTED)
    bench.put("a", "b", lease_count=2)

    with pytest.raises(TargetError):
        bench.dispatcher(attempt=2).drain()
    assert bench.dead_letters == {}
    assert bench.states == {"a": "leased", "b": "leased"}


@pytest.mark.parametrize("order", [("bad", "good"), ("good", "bad")])
def test_a_run_of_another_message_before_it_or_after_it_shows_that_a_message_is_at_fault(
    bench: Workbench, order: tuple[str, str]
) -> None:
    bench.allow_dead_letters(after=1)
    bench.supervisor.refuse("bad", REJECTED)
    bench.put(*order)
    bench.dispatcher(attempt=2).drain()

    assert reasons(bench) == {"bad": "rejected"}
    assert bench.states == {}


def test_messages_of_one_lease_show_whether_the_target_is_at_fault(bench: Workbench) -> None:
    bench.allow_dead_letters(after=1)
    bench.supervisor.refuse("bad", REJECTED)
    bench.put("bad", "good1", "good2")
    bench.dispatcher().drain(bench.lease())

    assert reasons(bench) == {"bad": "rejected"}
    assert bench.states == {}


def test_a_run_that_another_drain_started_shows_nothing(bench: Workbench) -> None:
    bench.allow_dead_letters(after=1)
    bench.supervisor.refuse("bad", REJECTED)
    bench.put("good")
    bench.dispatcher().drain()
    bench.put("bad", lease_count=1)

    with pytest.raises(TargetError):
        bench.dispatcher().drain()
    assert bench.dead_letters == {}
    assert bench.states == {"bad": "leased"}


def test_a_target_that_breaks_in_a_drain_makes_no_dead_letters(bench: Workbench) -> None:
    bench.allow_dead_letters(after=1)
    bench.put("good", *(f"bad{number}" for number in range(40)))
    bench.supervisor.refuse("bad", REJECTED)

    with pytest.raises(TargetError, match=r"rejected 20 new messages .* in a row.*No message is lost"):
        drained(bench)
    assert bench.dead_letters == {}
    assert list(bench.states.values()).count("leased") == 20
    assert list(bench.states.values()).count("available") == 20


def test_messages_that_are_known_as_rejected_do_not_count_in_a_row(bench: Workbench) -> None:
    bench.allow_dead_letters(after=4)
    bench.put(*(f"bad{number}" for number in range(40)), lease_count=1)
    bench.put("good", lease_count=2)
    bench.supervisor.refuse("bad", REJECTED)
    drained(bench)

    assert bench.dead_letters == {}
    assert list(bench.states.values()) == ["leased"] * 40


def test_no_message_becomes_a_dead_letter_that_the_target_was_not_asked_about(bench: Workbench) -> None:
    bench.allow_dead_letters()
    bench.put("good", lease_count=3)
    bench.put(*(f"bad{number}" for number in range(20)))
    bench.put(*(f"sound{number}" for number in range(5)), lease_count=3)
    # The bad ones come first, although their delivery counts are lower.
    lease = bench.lease()
    lease.messages.sort(key=lambda message: message["id"] != "good" and not message["id"].startswith("bad"))
    for message in lease.messages:
        message["message_attributes"]["lease_count"] = 1 if message["id"].startswith("bad") else 4
    lease.messages[0]["message_attributes"]["lease_count"] = 5
    bench.supervisor.refuse("bad", REJECTED)

    with pytest.raises(TargetError):
        bench.ready_dispatcher().drain(lease)
    assert bench.dead_letters == {}
    assert sorted(bench.supervisor.started) == ["good", *(f"sound{number}" for number in range(5))]


@pytest.mark.parametrize("error", [REJECTED, lost("HTTPStatusError"), api_error(409, "import_errors")])
def test_before_its_last_delivery_a_message_becomes_one_whoever_is_at_fault(
    bench: Workbench, error: Fault
) -> None:
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


def test_a_5xx_counts_as_a_rejection(bench: Workbench) -> None:
    bench.allow_dead_letters(after=2)
    bench.supervisor.refuse("a", api_error(500))
    bench.put("a", lease_count=1)
    bench.put("good")
    drained(bench)

    assert reasons(bench) == {"a": "rejected"}
    assert bench.states == {}


def test_a_run_that_airflow_stored_before_its_5xx_is_found(bench: Workbench) -> None:
    bench.allow_dead_letters(after=1)
    bench.put("a")

    def stored_and_failed(asked: Fault) -> Fault:
        bench.start_before("a")
        return api_error(503)

    bench.supervisor.faults.append(stored_and_failed)  # type: ignore[arg-type]
    dispatcher = bench.dispatcher()
    dispatcher.drain()

    assert dispatcher.counts.result["existing"]["ids"] == ["a"]
    assert bench.dead_letters == {}
    assert bench.states == {}


@pytest.mark.parametrize("attributes", [{"lease_count": "4"}, {"lease_count": 4.0}])
def test_a_delivery_count_may_be_text_or_a_float(bench: Workbench, attributes: dict[str, object]) -> None:
    bench.allow_dead_letters()
    bench.supervisor.refuse("bad", REJECTED)
    bench.put("bad")
    lease = bench.lease()
    lease.messages[0]["message_attributes"] = attributes  # type: ignore[typeddict-item]

    with pytest.raises(TargetError):
        bench.dispatcher().drain(lease)
    assert reasons(bench) == {"bad": "target"}


@pytest.mark.parametrize("attributes", [{"lease_count": "many"}, {"lease_count": None}, {}, None, ["x"]])
def test_without_a_delivery_count_a_message_at_fault_becomes_one_at_once_and_is_found_later(
    bench: Workbench, attributes: object
) -> None:
    bench.allow_dead_letters()
    bench.supervisor.refuse("bad", REJECTED)
    bench.put("bad", "good")
    lease = bench.lease()
    for message in lease.messages:
        message["message_attributes"] = attributes  # type: ignore[typeddict-item]
    bench.dispatcher().drain(lease)
    assert reasons(bench) == {"bad": "rejected"}

    bench.supervisor.faults.clear()
    bench.supervisor.asked.clear()
    bench.put("bad")
    again = bench.lease()
    again.messages[0]["message_attributes"] = attributes  # type: ignore[typeddict-item]
    bench.dispatcher().drain(again)
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


@pytest.mark.since(3, 3, "a type of its own for runs that tasks start,")
def test_a_run_that_a_user_made_up_is_not_the_run_of_the_message(bench: Workbench) -> None:
    bench.allow_dead_letters(after=1)
    bench.put("a", "good")
    bench.start_before("a", user="somebody")
    dispatcher = bench.ready_dispatcher()
    dispatcher.drain()

    assert reasons(bench) == {"a": "rejected"}
    assert "a user or another message started it" in bench.dead_letters["a"]["cause"]
    assert dispatcher.counts.result["existing"]["count"] == 0


def test_a_run_is_that_of_its_message_though_the_connection_was_renamed(bench: Workbench) -> None:
    bench.put("a")
    bench.start_before("a")
    bench.supervisor.runs["handle", bench.run_id("a")]["connection_id"] = "another"
    dispatcher = bench.dispatcher()
    dispatcher.drain()

    assert dispatcher.counts.result["existing"]["ids"] == ["a"]
    assert bench.states == {}


@pytest.mark.since(3, 3, "a type of its own for runs that tasks start,")
def test_a_dead_letter_that_a_user_made_up_is_not_that_of_the_message(bench: Workbench) -> None:
    bench.allow_dead_letters()
    bench.put("a", lease_count=2)
    run_id = run_id_of("a", bench.inbox_id, "workflow__dead__")
    names = {"connection_id": "workflow_default", "inbox_id": bench.inbox_id, "message_id": "a"}
    bench.supervisor.runs["dead", run_id] = names
    bench.supervisor.users["dead", run_id] = "somebody"
    bench.dispatcher().drain()

    assert bench.supervisor.started == ["a"]
    assert bench.states == {}


def test_redelivered_messages_find_their_runs(bench: Workbench) -> None:
    bench.allow_dead_letters()
    bench.put(*"abc")
    bench.service.fault("status", operation="ack", status=403, times=None)
    with pytest.raises(Exception, match="403"):
        bench.dispatcher().drain()
    bench.service.emulator.faults.clear()
    redelivered(bench)
    dispatcher = bench.dispatcher()
    dispatcher.drain()

    assert sorted(bench.supervisor.started) == ["a", "b", "c"]
    assert dispatcher.counts.result["existing"]["count"] == 3
    assert bench.states == {}
