"""An inbox that is deleted and created again under its name fails no try of a sensor, however it waits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from airflow.exceptions import AirflowRescheduleException
from airflow.providers.common.compat.sdk import TaskDeferred

from airflow_provider_workflow.client.errors import NotFoundError
from airflow_provider_workflow.dispatch.session import MISSING_PAUSES
from tests.unit.created_again import LOOKING, created_again, put_in_a_new_inbox
from tests.unit.fake_clock import FakeClock
from tests.unit.sensors.tasks import POLL, Task
from tests.unit.workbench import INBOX, Workbench

__all__ = ["created_again"]

MODES: dict[str, dict[str, Any]] = {
    "poke": {"deferrable": False},
    "reschedule": {"deferrable": False, "mode": "reschedule"},
    "deferrable": {"deferrable": True},
}
RECEIVES = {"trigger_dag_id": None, "acknowledge": "manual"}


@pytest.fixture(params=["with runs", "with messages"])
def arguments(request: pytest.FixtureRequest) -> dict[str, Any]:
    """A sensor that starts runs, and one that returns messages."""
    return {} if request.param == "with runs" else RECEIVES


def done(value: Any) -> list[str]:
    """The ids of the messages that a sensor's value tells of."""
    if "messages" in value:
        return [message["id"] for message in value["messages"]]
    ids: list[str] = value["started"]["ids"]
    return ids


@pytest.mark.parametrize("mode", MODES)
def test_the_first_look_finds_it_once_it_is_there_again(
    bench: Workbench,
    created_again: Callable[..., None],
    arguments: dict[str, Any],
    mode: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    bench.service.store.configure(deleting_seconds=5)
    bench.hook.delete_inbox(INBOX)
    created_again(10, "a")

    assert done(Task(bench, **MODES[mode], **arguments).execute()) == ["a"]
    assert caplog.text.count(LOOKING) == 1


@pytest.mark.parametrize("mode", ["poke", "deferrable"])
@pytest.mark.parametrize("by", ["name", "id"])
def test_one_that_is_gone_for_good_fails_the_try(
    bench: Workbench, pauses: FakeClock, arguments: dict[str, Any], mode: str, by: str
) -> None:
    bench.hook.delete_inbox(INBOX)
    inbox = INBOX if by == "name" else bench.inbox_id

    with pytest.raises(NotFoundError):
        Task(bench, inbox=inbox, **MODES[mode], **arguments).execute()
    assert pauses.slept == ([*MISSING_PAUSES] if by == "name" else [])


def test_a_sensor_that_pokes_finds_it_again_between_two_looks(
    bench: Workbench, created_again: Callable[..., None], pauses: FakeClock, arguments: dict[str, Any]
) -> None:
    def replace() -> None:
        bench.hook.delete_inbox(INBOX)
        created_again(10, "a")

    pauses.then(replace)

    assert done(Task(bench, **MODES["poke"], **arguments).execute()) == ["a"]
    assert pauses.slept[1:] == [1, 2, 4, 8]


def test_a_sensor_that_is_rescheduled_finds_it_again(
    bench: Workbench, created_again: Callable[..., None], arguments: dict[str, Any]
) -> None:
    with pytest.raises(AirflowRescheduleException):
        Task(bench, **MODES["reschedule"], **arguments).execute()
    bench.hook.delete_inbox(INBOX)
    created_again(10, "a")

    assert done(Task(bench, **MODES["reschedule"], **arguments).execute()) == ["a"]


def test_a_sensor_that_is_resumed_finds_it_again(
    bench: Workbench, created_again: Callable[..., None], arguments: dict[str, Any]
) -> None:
    task = Task(bench, **arguments)
    deferral = task.execute()
    assert isinstance(deferral, TaskDeferred)
    bench.hook.delete_inbox(INBOX)
    created_again(10, "a")

    assert done(task.resume(deferral, POLL)) == ["a"]


def test_a_lease_of_the_deleted_inbox_is_worked_on_and_then_what_the_new_one_holds(
    bench: Workbench, fake_clock: FakeClock
) -> None:
    task = Task(bench)
    deferral = task.execute()
    bench.put("a")
    event = task.leased()
    bench.hook.delete_inbox(INBOX)
    new_id = put_in_a_new_inbox(bench.service, "b")

    assert done(task.resume(deferral, event)) == ["a", "b"]
    inbox_ids = [conf["inbox_id"] for conf in bench.supervisor.runs.values()]
    assert inbox_ids == [bench.inbox_id, new_id]
    assert bench.states == {}


@pytest.mark.since(3, 3, "the task state store")
def test_messages_that_the_trigger_leased_of_the_deleted_inbox_are_returned(
    bench: Workbench, fake_clock: FakeClock
) -> None:
    task = Task(bench, trigger_dag_id=None)
    deferral = task.execute()
    bench.put("a")
    event = task.leased()
    bench.hook.delete_inbox(INBOX)

    assert [message["id"] for message in task.resume(deferral, event)] == ["a"]
    assert fake_clock.slept == []
