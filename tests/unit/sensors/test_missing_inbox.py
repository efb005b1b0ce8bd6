"""An inbox that is missing fails the try at once; a later try finds the one that has its name by then."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_workflow.client.errors import NotFoundError
from tests.unit.created_again import put_in_a_new_inbox
from tests.unit.fake_clock import FakeClock
from tests.unit.sensors.tasks import Task
from tests.unit.workbench import INBOX, Workbench

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


@pytest.mark.parametrize("mode", ["poke", "deferrable"])
@pytest.mark.parametrize("by", ["name", "id"])
def test_a_missing_inbox_fails_the_try(
    bench: Workbench, pauses: FakeClock, arguments: dict[str, Any], mode: str, by: str
) -> None:
    bench.hook.delete_inbox(INBOX)
    inbox = INBOX if by == "name" else bench.inbox_id

    with pytest.raises(NotFoundError):
        Task(bench, inbox=inbox, **MODES[mode], **arguments).execute()
    assert pauses.slept == []


@pytest.mark.parametrize("mode", MODES)
def test_the_next_try_finds_an_inbox_that_was_created_again_under_its_name(
    bench: Workbench, arguments: dict[str, Any], mode: str
) -> None:
    bench.hook.delete_inbox(INBOX)
    put_in_a_new_inbox(bench.service, "a")

    assert done(Task(bench, **MODES[mode], **arguments).execute()) == ["a"]


def test_a_sensor_that_pokes_finds_it_again_between_two_polls(
    bench: Workbench, pauses: FakeClock, arguments: dict[str, Any]
) -> None:
    def replace() -> None:
        bench.hook.delete_inbox(INBOX)
        put_in_a_new_inbox(bench.service, "a")

    pauses.then(replace)

    assert done(Task(bench, **MODES["poke"], **arguments).execute()) == ["a"]


def test_a_lease_of_a_deleted_inbox_starts_its_runs_and_the_next_try_those_of_the_new_one(
    bench: Workbench, fake_clock: FakeClock
) -> None:
    task = Task(bench)
    deferral = task.execute()
    bench.put("a")
    event = task.leased()
    bench.hook.delete_inbox(INBOX)
    new_id = put_in_a_new_inbox(bench.service, "b")

    with pytest.raises(NotFoundError):
        task.resume(deferral, event)
    assert done(Task(bench).execute()) == ["b"]
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
