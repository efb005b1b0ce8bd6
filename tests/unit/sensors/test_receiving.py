"""A sensor without ``trigger_dag_id`` returns the messages of one lease."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_workflow.client.errors import WorkflowError
from airflow_provider_workflow.dispatch.lease import InboxNotActiveError
from tests.unit.fake_clock import FakeClock
from tests.unit.sensors.tasks import POLL, Task
from tests.unit.workbench import Workbench

acknowledges = pytest.mark.since(3, 3, "the task state store")


def ids(messages: list[dict[str, Any]]) -> list[str]:
    return [message["id"] for message in messages]


def task(bench: Workbench, **arguments: Any) -> Task:
    return Task(bench, trigger_dag_id=None, **arguments)


@acknowledges
def test_messages_are_returned_and_acknowledged(bench: Workbench) -> None:
    bench.put("a", "b")

    assert ids(task(bench).execute()) == ["a", "b"]
    assert bench.states == {}
    assert bench.supervisor.runs == {}


@acknowledges
def test_only_one_lease_is_returned(bench: Workbench) -> None:
    bench.put("a", "b", "c")

    assert ids(task(bench, lease_limit=2).execute()) == ["a", "b"]
    assert ids(task(bench, max_messages=1).execute()) == ["c"]


@acknowledges
def test_a_retry_returns_what_a_killed_try_received(bench: Workbench) -> None:
    wait = task(bench)
    bench.put("a")
    bench.service.fault("status", operation="ack", status=503, times=5)
    with pytest.raises(WorkflowError):
        wait.execute()
    bench.put("b")

    assert ids(wait.execute()) == ["a"]
    assert bench.states == {"b": "available"}


@acknowledges
def test_a_cleared_task_returns_its_messages_even_if_the_inbox_is_gone(bench: Workbench) -> None:
    wait = task(bench)
    bench.put("a")
    wait.execute()
    bench.service.store.inboxes.delete(bench.inbox_id)

    assert ids(wait.execute()) == ["a"]


@acknowledges
def test_messages_that_the_trigger_leased_are_returned(bench: Workbench) -> None:
    wait = task(bench)
    deferral = wait.execute()
    bench.put("a")

    assert ids(wait.resume(deferral, wait.leased())) == ["a"]
    assert bench.service.count("lease") == 2


@acknowledges
def test_a_lease_that_ran_out_is_leased_again(bench: Workbench, fake_clock: FakeClock) -> None:
    wait = task(bench)
    deferral = wait.execute()
    bench.put("a")
    event = wait.leased()
    fake_clock.advance(300)
    bench.service.store.clock.advance(300)

    assert ids(wait.resume(deferral, event)) == ["a"]
    assert bench.service.count("lease") == 3


def test_manual_returns_the_lease(bench: Workbench) -> None:
    bench.put("a")
    lease = task(bench, acknowledge="manual").execute()

    assert ids(lease["messages"]) == ["a"]
    assert bench.states == {"a": "leased"}
    bench.hook.acknowledge_messages(lease["inbox_id"], lease["lease_id"])
    assert bench.states == {}


def test_manual_needs_no_task_state_store(bench: Workbench) -> None:
    wait = task(bench, acknowledge="manual")
    del wait.context["task_state_store"]
    bench.put("a")

    assert ids(wait.execute()["messages"]) == ["a"]


@acknowledges
def test_a_lease_without_wanted_messages_is_waited_on(bench: Workbench) -> None:
    bench.put("a")
    deferral = task(bench, match="payload.wanted").execute()

    assert deferral.trigger.hold_seconds == 0
    assert bench.states == {"a": "leased"}


@pytest.mark.parametrize("acknowledge", [pytest.param("auto", marks=acknowledges), "manual"])
def test_a_bad_message_does_not_keep_good_ones_from_the_dag(bench: Workbench, acknowledge: str) -> None:
    bench.put("bad", payload=1)
    bench.put("good")
    value: Any = task(bench, acknowledge=acknowledge, match="length(payload)").execute()

    assert ids(value["messages"] if acknowledge == "manual" else value) == ["good"]
    assert bench.states["bad"] == "leased"


@acknowledges
def test_a_bad_message_alone_fails_the_task_or_is_only_logged(bench: Workbench) -> None:
    bench.put("bad", payload=1)
    with pytest.raises(AirflowFailException, match="bad: match cannot be evaluated"):
        task(bench, match="length(payload)").execute()

    bench.service.store.clock.advance(301)
    assert task(bench, on_rejected="log", match="length(payload)").execute().trigger.hold_seconds == 0


@acknowledges
def test_a_paused_inbox_fails_although_a_message_was_refused_before(bench: Workbench) -> None:
    bench.put("bad", payload=1)
    wait = task(bench, on_rejected="log", match="length(payload)")
    deferral = wait.execute()
    bench.service.store.clock.advance(301)
    bench.hook.acknowledge_messages("orders", bench.lease().lease_id)
    bench.service.store.inboxes.force(bench.inbox_id, "paused", "user")

    with pytest.raises(InboxNotActiveError):
        wait.resume(deferral, POLL)
