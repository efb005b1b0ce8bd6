"""Who is at fault for a rejection decides whether a message becomes a dead letter, and when."""

from __future__ import annotations

import json

import pytest

from airflow_provider_workflow.dispatch.rejections import TargetError
from tests.unit.alarms import Variables, variables
from tests.unit.counted import counted
from tests.unit.fakes import Fault, api_error, lost
from tests.unit.rejecting import REJECTED, drained, redelivered
from tests.unit.workbench import Workbench

__all__ = ["counted", "variables"]

pytestmark = pytest.mark.usefixtures("variables")


def test_a_message_is_put_into_no_dead_letter_while_its_target_may_be_at_fault(bench: Workbench) -> None:
    bench.allow_dead_letters(after=1)
    bench.supervisor.fail(REJECTED)
    bench.put("a", "b", lease_count=2)

    with pytest.raises(TargetError):
        bench.dispatcher().drain()
    assert bench.dead_letters == {}
    assert bench.states == {"a": "leased", "b": "leased"}


def test_a_pilot_that_is_rejected_waits_for_the_next_one(bench: Workbench) -> None:
    bench.allow_dead_letters(after=1)
    bench.supervisor.refuse("bad", REJECTED)
    bench.put("bad", "good")
    bench.dispatcher().drain()

    assert list(bench.dead_letters) == ["bad"]
    assert bench.lease_sizes[:2] == [1, 1]
    assert bench.states == {}


def test_after_a_broken_target_no_second_pilot_is_tried(bench: Workbench) -> None:
    bench.allow_dead_letters(after=1)
    bench.supervisor.refuse("", REJECTED)
    bench.put("a", "b", "c")
    for _ in range(2):
        dispatcher = bench.dispatcher()
        dispatcher.check_targets()
        with pytest.raises(TargetError):
            dispatcher.drain()
        bench.ti.try_number += 1

    assert bench.states == {"a": "leased", "b": "leased", "c": "leased"}
    assert bench.lease_sizes == [1, 1, 1]


def test_one_other_message_of_the_lease_shows_whether_the_target_is_at_fault(bench: Workbench) -> None:
    bench.allow_dead_letters(after=1)
    bench.supervisor.refuse("bad", REJECTED)
    bench.put("bad", "good1", "good2")
    bench.dispatcher().drain(bench.lease())

    assert list(bench.dead_letters) == ["bad"]
    assert bench.states == {}


def test_no_third_message_is_tried_on_a_target_that_rejects_two(bench: Workbench) -> None:
    bench.allow_dead_letters(after=1)
    bench.supervisor.fail(REJECTED)
    bench.put(*"abcd")

    with pytest.raises(TargetError):
        bench.dispatcher().drain(bench.lease())
    assert bench.dead_letters == {}
    assert bench.states == {"a": "leased", "b": "available", "c": "available", "d": "leased"}


def test_a_target_that_breaks_under_way_makes_no_dead_letters(bench: Workbench) -> None:
    bench.allow_dead_letters(after=1)
    bench.put("good", *(f"bad{number}" for number in range(40)))
    bench.supervisor.refuse("bad", REJECTED)

    with pytest.raises(TargetError, match=r"the last 20 runs .*No message is lost"):
        drained(bench)
    assert bench.dead_letters == {}
    assert list(bench.states.values()).count("leased") == 20


@pytest.mark.parametrize("error", [REJECTED, lost("HTTPStatusError"), api_error(409, "import_errors")])
def test_before_its_last_delivery_a_message_becomes_one_whoever_is_at_fault(
    bench: Workbench, error: Fault
) -> None:
    bench.allow_dead_letters()
    bench.supervisor.refuse("a", error)
    bench.put("a", lease_count=3)

    with pytest.raises(TargetError):
        bench.dispatcher(lease_limit=100).drain()
    assert {each: conf["reason"] for each, conf in bench.dead_letters.items()} == {"a": "target"}
    assert bench.states == {}


def test_a_message_that_is_rejected_again_after_a_run_of_another_is_at_fault(bench: Workbench) -> None:
    bench.allow_dead_letters()
    bench.supervisor.refuse("bad", REJECTED)
    bench.put("bad", lease_count=1)
    with pytest.raises(TargetError):
        bench.dispatcher().drain()
    bench.put("good")
    bench.dispatcher().drain()
    redelivered(bench)
    bench.dispatcher().drain()

    assert {each: conf["reason"] for each, conf in bench.dead_letters.items()} == {"bad": "rejected"}
    assert bench.states == {}


def test_a_target_that_started_nothing_in_between_is_presumed_to_be_at_fault(bench: Workbench) -> None:
    bench.allow_dead_letters()
    bench.supervisor.refuse("bad", REJECTED)
    bench.put("good")
    bench.dispatcher().drain()
    bench.put("bad", lease_count=1)
    for _ in range(2):
        with pytest.raises(TargetError):
            bench.dispatcher().drain()
        redelivered(bench)

    assert bench.dead_letters == {}
    assert bench.states == {"bad": "available"}


def test_what_earlier_processes_knew_of_a_message_ends_with_it(
    bench: Workbench, variables: Variables
) -> None:
    bench.allow_dead_letters()
    bench.supervisor.refuse("bad", REJECTED)
    bench.put("bad", lease_count=2)
    with pytest.raises(TargetError):
        bench.dispatcher().drain()
    assert json.loads(variables.values["workflow_rejected__workflow_default__orders"])["handle"]
    bench.supervisor.faults.clear()
    redelivered(bench)
    bench.dispatcher().drain()

    assert bench.supervisor.started == ["bad"]
    assert json.loads(variables.values["workflow_rejected__workflow_default__orders"]) == {}


def test_a_message_on_which_an_expression_fails_needs_no_run_of_another(bench: Workbench) -> None:
    bench.allow_dead_letters()
    bench.put("a", lease_count=2, payload={"list": 1})
    bench.dispatcher({"handle": "length(payload.list) > `1`"}).drain()

    [conf] = bench.dead_letters.values()
    assert (conf["reason"], conf["target_dag_id"]) == ("expression", "handle")
    assert bench.states == {}


def test_on_its_last_safe_delivery_a_message_becomes_one_at_once(bench: Workbench) -> None:
    bench.allow_dead_letters()
    bench.supervisor.refuse("bad", REJECTED)
    bench.put("good")
    bench.put("bad", lease_count=3)
    drained(bench)

    asked = [(each.dag_id, each.conf or {}) for each in bench.supervisor.asked]
    order = [conf.get("message_id") or conf["message"]["id"] for _, conf in asked if conf]
    assert order == ["bad", "bad", "good"]
    assert bench.dead_letters["bad"]["reason"] == "target"
    assert bench.states == {}


def test_a_decided_message_still_casts_doubt_on_its_target(bench: Workbench) -> None:
    bench.allow_dead_letters()
    bench.put(*"abc", lease_count=3)
    bench.supervisor.faults.append(lambda asked: REJECTED if asked.dag_id == "handle" else None)

    with pytest.raises(TargetError):
        bench.dispatcher().drain(bench.lease())
    # "b" was not tried. Released, it would be on its last delivery.
    assert set(bench.dead_letters) == {"a", "b", "c"}
    assert bench.states == {}


def test_one_error_of_the_server_makes_no_dead_letter_although_another_run_starts(bench: Workbench) -> None:
    bench.allow_dead_letters(after=1)
    bench.supervisor.refuse("a", api_error(500))
    bench.put("a", lease_count=1)
    bench.put("good")
    drained(bench)
    assert bench.dead_letters == {}
    assert bench.states == {"a": "leased"}

    redelivered(bench)
    bench.put("good2")
    drained(bench)
    assert {each: conf["reason"] for each, conf in bench.dead_letters.items()} == {"a": "rejected"}
    assert bench.states == {}


def test_a_hand_off_on_its_last_safe_delivery_becomes_one_if_the_target_is_broken(bench: Workbench) -> None:
    bench.allow_dead_letters()
    bench.put("last", "known", lease_count=3)
    bench.put("new")
    bench.ti.existing = {("handle", bench.run_id("known"))}
    lease = bench.lease()
    bench.supervisor.dags.discard("handle")
    dispatcher = bench.dispatcher()

    with pytest.raises(TargetError):
        dispatcher.check_targets(lease)
    assert {each: conf["reason"] for each, conf in bench.dead_letters.items()} == {"last": "target"}
    assert dispatcher.counts.result["existing"]["ids"] == ["known"]
    assert bench.states == {"new": "leased"}
