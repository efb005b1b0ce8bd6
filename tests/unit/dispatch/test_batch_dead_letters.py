"""Batches: failed messages become dead letters."""

from __future__ import annotations

import contextlib
import logging
from typing import Any

import pytest

from airflow_provider_workflow.dispatch.batch_outcomes import BatchError
from airflow_provider_workflow.dispatch.dead_letters import message_of
from airflow_provider_workflow.dispatch.run_errors import TargetError
from tests.unit.dispatch.batching import NAMED, RAISED, Function, batches
from tests.unit.fake_clock import FakeClock
from tests.unit.fakes import api_error
from tests.unit.workbench import Workbench


def test_no_dead_letter_is_started_after_the_lease_has_ended(bench: Workbench, fake_clock: FakeClock) -> None:
    fake_clock.moved_along.append(bench.service.store.clock)
    bench.allow_dead_letters()
    function = Function({"bad"}, names=True, meanwhile=lambda ids: fake_clock.advance(75 * (ids == ["bad"])))
    bench.put("good")
    bench.put("bad", lease_count=2)

    with pytest.raises(BatchError):
        batches(bench, function, lease_seconds=60).run()
    assert bench.dead_letters == {}
    assert bench.states == {"bad": "available"}


def test_a_failed_message_becomes_a_dead_letter_with_its_third_delivery(bench: Workbench) -> None:
    states: list[str] = []
    bench.supervisor.on_start = lambda: states.append(bench.states["bad"])
    bench.allow_dead_letters()
    bench.put("bad", lease_count=2, payload={"n": [1, "a secret"]})
    bench.put("a", "b")
    result = batches(bench, Function({"bad"}, names=True)).run()

    assert states == ["leased"], "it is acknowledged when the dead letter is stored"
    [conf] = bench.dead_letters.values()
    assert message_of(conf)["payload"] == {"n": [1, "a secret"]}
    assert (conf["inbox_id"], conf["message_id"], conf["delivery_count"]) == (bench.inbox_id, "bad", 3)
    assert (conf["reason"], conf["cause"], conf["target_dag_id"]) == ("failed", NAMED, None)
    assert result["dead_lettered"] == {"count": 1, "ids": ["bad"]}
    assert result["processed"]["count"] == 2
    assert bench.states == {}


def test_the_cause_of_a_dead_letter_is_the_type_of_the_exception_and_not_its_text(
    bench: Workbench, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    bench.allow_dead_letters()
    bench.put("good")
    bench.put("bad", lease_count=2, payload={"n": "a secret"})
    batches(bench, Function({"bad"})).run()

    assert bench.dead_letters["bad"]["cause"] == RAISED
    assert "a secret" not in caplog.text


def test_what_the_function_does_with_a_message_does_not_change_its_dead_letter(bench: Workbench) -> None:
    class Changing(Function):
        def __call__(self, messages: list[dict[str, Any]]) -> dict[str, str]:
            messages[0]["payload"].clear()
            messages[0]["message_attributes"].clear()
            return {"bad": NAMED}

    bench.allow_dead_letters(after=1)
    bench.put("bad", payload={"n": 1})
    batches(bench, Changing()).run()

    assert message_of(bench.dead_letters["bad"])["payload"] == {"n": 1}
    assert bench.dead_letters["bad"]["delivery_count"] == 1


def test_nothing_is_leased_if_the_dead_letter_dag_is_missing(bench: Workbench) -> None:
    bench.allow_dead_letters()
    bench.supervisor.dags.discard("dead")
    bench.put("a")

    with pytest.raises(TargetError, match=r"'dead' was not found\. .* correct dead_letter_dag_id"):
        batches(bench, Function()).run()
    assert bench.service.count("lease") == 0


def test_a_message_that_the_dead_letter_dag_rejects_is_left_to_its_lease(bench: Workbench) -> None:
    bench.allow_dead_letters(after=3)
    bench.supervisor.faults.append(lambda message: api_error(422))
    bench.put("bad", lease_count=2)

    with pytest.raises(BatchError, match="bad: named"):
        batches(bench, Function({"bad"}, names=True)).run()
    assert bench.states == {"bad": "leased"}


def test_a_redelivered_dead_letter_is_acknowledged_and_not_given_to_the_function(bench: Workbench) -> None:
    bench.allow_dead_letters(after=1)
    bench.put("a")
    bench.service.fault("status", operation="ack", status=403, times=1)
    with contextlib.suppress(Exception):
        batches(bench, Function({"a"}, names=True)).run()
    bench.service.store.messages.expire()
    function = Function()
    result = batches(bench, function).run()

    assert function.calls == []
    assert result["dead_lettered"]["ids"] == ["a"]
    assert len(bench.dead_letters) == 1
    assert bench.states == {}


def test_a_message_that_fails_before_any_was_processed_is_no_dead_letter_yet(bench: Workbench) -> None:
    bench.allow_dead_letters()
    bench.put("third", lease_count=2)

    with pytest.raises(ValueError, match="cannot read"):
        batches(bench, Function({"third"})).run()
    assert bench.dead_letters == {}
    assert bench.states == {"third": "leased"}


def test_a_message_on_its_fourth_delivery_becomes_a_dead_letter_without_a_call(bench: Workbench) -> None:
    bench.allow_dead_letters()
    bench.put("killer", lease_count=3)
    function = Function()
    batches(bench, function).run()

    assert function.calls == []
    assert "its process was killed" in bench.dead_letters["killer"]["cause"]
    assert bench.states == {}


def test_a_broken_function_makes_few_dead_letters_in_a_task(bench: Workbench) -> None:
    bench.allow_dead_letters()
    ids = ["a", "b", "c", "d"]
    bench.put(*ids, lease_count=2)

    with pytest.raises(BatchError, match="too many messages in a row"):
        batches(bench, Function(set(ids), names=True)).run()
    assert len(bench.dead_letters) == 2
    assert sorted(bench.states.values()) == ["available", "available"]
