"""What the sensor receives, and how many messages it leases."""

from __future__ import annotations

import logging
import sys
from typing import Any

import pytest
from airflow.exceptions import AirflowRescheduleException
from airflow.providers.common.compat.sdk import AirflowFailException, TaskDeferred

from airflow_provider_workflow import clock
from airflow_provider_workflow.airflow_internals import SERIALIZATION_KEYS
from airflow_provider_workflow.client.errors import WorkflowError
from airflow_provider_workflow.dispatch.payloads import payload_of
from airflow_provider_workflow.pytest_plugin import reset
from airflow_provider_workflow.sensors.inbox import WorkflowInboxSensor
from airflow_provider_workflow.source import Alarm
from tests.unit.fake_clock import FakeClock, nothing
from tests.unit.sensors.tasks import POLL, Task
from tests.unit.workbench import Workbench

acknowledges = pytest.mark.since(3, 3, "the task state store")


def ids(messages: list[dict[str, Any]]) -> list[str]:
    return [message["id"] for message in messages]


def task(bench: Workbench, **arguments: Any) -> Task:
    return Task(bench, trigger_dag_id=None, **arguments)


@acknowledges
@pytest.mark.parametrize(("attempt", "sizes"), [(1, [100, 100]), (2, [50, 50]), (7, [1, 1]), (76, [1, 1])])
def test_each_failed_try_halves_the_lease_of_messages_that_are_returned(
    bench: Workbench, attempt: int, sizes: list[int]
) -> None:
    bench.ti.try_number = attempt
    deferral = task(bench).execute()
    bench.put("a")
    task(bench).execute()

    assert [deferral.trigger.lease_limit, bench.lease_sizes[-1]] == sizes


LARGE = "x" * 20_000_000


@pytest.mark.parametrize("deferrable", [True, False])
def test_messages_of_a_lease_that_was_too_large_are_returned_one_by_one_on_the_next_delivery(
    bench: Workbench, pauses: FakeClock, deferrable: bool
) -> None:
    bench.put("a", "b", "c", "d", payload={"text": LARGE})

    def poll(wait: Task) -> Any:
        # Each poll has a process of its own, which knows nothing of earlier answers.
        reset()
        try:
            return wait.execute()
        except AirflowRescheduleException:
            return None

    more = {} if deferrable else {"mode": "reschedule"}
    received = []
    for _ in range(8):
        value = poll(task(bench, acknowledge="manual", deferrable=deferrable, **more))
        if isinstance(value, dict):
            received += ids(value["messages"])
            bench.hook.acknowledge_messages(value["inbox_id"], value["lease_id"])
        bench.service.store.messages.expire(bench.inbox_id)

    assert sorted(received) == ["a", "b", "c", "d"]
    assert bench.lease_sizes[0] == 100
    assert set(bench.lease_sizes[1:5]) == {1}


def test_a_listing_that_fails_leases_nothing(bench: Workbench) -> None:
    bench.put("a")
    bench.service.fault("status", operation="list_messages", status=503, times=5)

    assert isinstance(task(bench, acknowledge="manual").execute(), TaskDeferred)
    assert bench.lease_sizes == []


@acknowledges
@pytest.mark.parametrize("deferrable", [True, False])
@pytest.mark.parametrize(
    ("name", "value"), [("retries", 0), ("do_xcom_push", False), ("multiple_outputs", True)]
)
def test_nothing_is_leased_if_a_cluster_policy_takes_away_what_auto_needs(
    bench: Workbench, name: str, value: Any, deferrable: bool
) -> None:
    bench.put("a")
    wait = task(bench, deferrable=deferrable)
    setattr(wait.sensor, name, value)

    with pytest.raises(ValueError, match=rf"^{name} must be .* with acknowledge=\"auto\""):
        wait.execute()
    with pytest.raises(ValueError, match=f"^{name} must be"):
        wait.sensor.resume_execution("resume", {"event": POLL}, wait.context)
    assert bench.lease_sizes == []


@acknowledges
def test_a_mapped_sensor_whose_messages_would_be_lost_is_refused_before_it_leases(bench: Workbench) -> None:
    partial = WorkflowInboxSensor.partial(task_id="wait", do_xcom_push=False)
    mapped_sensor = partial.expand(inbox=["orders"])

    with pytest.raises(ValueError, match=r"^do_xcom_push must be True"):
        mapped_sensor.unmap({"inbox": "orders"})


@acknowledges
def test_the_messages_of_one_lease_are_returned_and_acknowledged(bench: Workbench) -> None:
    bench.put("a", "b", "c")

    assert ids(task(bench, lease_limit=2).execute()) == ["a", "b"]
    assert bench.states == {"c": "available"}
    assert ids(task(bench, max_messages=1).execute()) == ["c"]
    assert bench.states == {}
    assert bench.supervisor.runs == {}


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


def test_manual_returns_the_lease_and_needs_no_task_state_store(bench: Workbench) -> None:
    bench.put("a")
    wait = task(bench, acknowledge="manual")
    del wait.context["task_state_store"]
    lease = wait.execute()

    assert ids(lease["messages"]) == ["a"]
    assert bench.states == {"a": "leased"}
    assert bench.service.summary("orders")["leases"][0]["leased_until"] == lease["leased_until"]
    bench.hook.acknowledge_messages(lease["inbox_id"], lease["lease_id"])
    assert bench.states == {}


@pytest.mark.parametrize("acknowledge", [pytest.param("auto", marks=acknowledges), "manual"])
def test_a_lease_without_wanted_messages_is_waited_on_and_not_stored(
    bench: Workbench, acknowledge: str
) -> None:
    bench.put("a")
    wait = task(bench, acknowledge=acknowledge, match="payload.wanted")

    assert wait.execute().trigger.hold_seconds == 0
    assert bench.states == {"a": "leased"}
    assert wait.store.rows == {}


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
    with pytest.raises(AirflowFailException, match=r"bad: match \(length\(payload\)\) cannot be"):
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
    bench.service.store.inboxes.force(bench.inbox_id, "paused", "abandoned")
    at = clock.now() - 90
    bench.ti.xcoms["before", "workflow_alarm", -1] = Alarm(began_at=at, problem_at=at).record()

    with pytest.raises(AirflowFailException, match="abandoned"):
        wait.resume(deferral, POLL)


def limit_runs(bench: Workbench) -> None:
    """Every run that was started stays unfinished, until ``finish``."""
    bench.ti.unfinished = lambda dag_id: len(bench.supervisor.runs)


def lines_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name.endswith("sensors.inbox")]


def finish(bench: Workbench) -> None:
    bench.ti.unfinished = lambda dag_id: 0


def test_without_room_nothing_is_leased_and_a_hold_doubles_and_begins_anew(bench: Workbench) -> None:
    bench.ti.unfinished = lambda dag_id: 3
    task = Task(bench, max_unfinished_runs=3, poll_interval=5, max_poll_interval=30)
    deferral = task.execute()
    holds = [deferral.trigger.hold_seconds]
    for _ in range(4):
        deferral = task.resume(deferral, POLL)
        holds.append(deferral.trigger.hold_seconds)
    assert holds == [5, 10, 20, 30, 30]
    assert bench.service.count("lease") == 0

    finish(bench)
    deferral = task.resume(deferral, POLL)
    assert deferral.trigger.hold_seconds == 0
    bench.ti.unfinished = lambda dag_id: 3
    assert task.resume(deferral, POLL).trigger.hold_seconds == 5


def test_the_trigger_leases_one_message_and_the_worker_the_rest(bench: Workbench) -> None:
    bench.ti.unfinished = lambda dag_id: 3

    assert Task(bench, max_unfinished_runs=10).execute().trigger.lease_limit == 1
    assert Task(bench, lease_limit=20).execute().trigger.lease_limit == 1


def test_after_a_failed_try_the_trigger_leases_one_message_for_an_hour(bench: Workbench) -> None:
    bench.ti.try_number = 2

    assert Task(bench).execute().trigger.lease_seconds == 3600


def test_a_sensor_that_started_runs_ends_with_an_inbox_that_is_empty_by_now(bench: Workbench) -> None:
    limit_runs(bench)
    bench.put(*"ab")
    task = Task(bench, max_unfinished_runs=2)
    deferral = task.execute()

    # There is room again by the time that it is deferred, and no new message comes.
    finish(bench)
    assert deferral.trigger.hold_seconds > 0
    assert task.resume(deferral, POLL)["started"]["count"] == 2


def test_max_messages_holds_across_deferrals(bench: Workbench) -> None:
    limit_runs(bench)
    bench.put(*"abcdef")
    task = Task(bench, max_unfinished_runs=2, max_messages=3)
    deferral = task.execute()
    assert bench.supervisor.started == ["a", "b"]
    finish(bench)

    assert task.resume(deferral, POLL)["started"] == {"count": 3, "ids": ["a", "b", "c"]}
    assert bench.states == {"d": "available", "e": "available", "f": "available"}


def test_poke_mode_counts_over_its_pokes(bench: Workbench, pauses: FakeClock) -> None:
    pauses.meanwhile = lambda _: finish(bench)
    limit_runs(bench)
    bench.put(*"ab")
    task = Task(bench, max_unfinished_runs=2, deferrable=False, poll_interval=7)

    assert task.execute()["started"] == {"count": 2, "ids": ["a", "b"]}
    assert pauses.slept == [7]


def test_poke_mode_pokes_until_there_are_messages_and_says_so_once(
    bench: Workbench, pauses: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    pauses.then(nothing, nothing, lambda: bench.put("a"))
    task = Task(bench, deferrable=False, poll_interval=7)

    assert task.execute()["started"]["ids"] == ["a"]
    assert pauses.slept == [7, 7, 7]
    assert lines_of(caplog) == [
        f"Inbox orders at 127.0.0.1:{bench.service.port}: nothing to do yet; polling every 7 s"
    ]
    bench.put("b")
    assert task.execute()["started"]["ids"] == ["b"]


def test_a_rescheduled_sensor_logs_how_it_polls_in_its_first_process_only(
    bench: Workbench, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        for count in range(3):
            task = Task(bench, deferrable=False, mode="reschedule")
            task.context["task_reschedule_count"] = count
            with pytest.raises(AirflowRescheduleException):
                task.execute()

    assert len(lines_of(caplog)) == 1


def test_reschedule_mode_ends_without_room_as_its_numbers_would_be_lost(bench: Workbench) -> None:
    limit_runs(bench)
    bench.put(*"abc")
    task = Task(bench, max_unfinished_runs=2, deferrable=False, mode="reschedule")

    assert task.execute()["started"]["ids"] == ["a", "b"]
    with pytest.raises(AirflowRescheduleException):
        task.execute()


UNUSED_MODULE = "airflow.example_dags.plugins.event_listener"
"""A module of Airflow's that can be imported anywhere."""


@pytest.mark.parametrize("acknowledge", [pytest.param("auto", marks=acknowledges), "manual"])
def test_a_payload_that_airflow_would_deserialize_is_text_and_imports_nothing(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch, acknowledge: str
) -> None:
    from airflow.sdk import serde
    from airflow.sdk.bases.xcom import BaseXCom

    deserialized: list[Any] = []
    monkeypatch.setattr(serde, "deserialize", deserialized.append)
    monkeypatch.setattr(BaseXCom, "deserialize_value", deserialized.append)
    monkeypatch.delitem(sys.modules, UNUSED_MODULE, raising=False)
    payloads: list[dict[str, Any]] = [
        {"__type": f"{UNUSED_MODULE}.Anything", "__var": {}},
        {"__classname__": f"{UNUSED_MODULE}.Anything", "__version__": 1, "__data__": {}},
        *({"items": [{"n": 1}, {"deep": {key: "x"}}]} for key in sorted(SERIALIZATION_KEYS)),
    ]
    bench.service.put("orders", *payloads)
    value: Any = task(bench, acknowledge=acknowledge).execute()
    messages = value["messages"] if acknowledge == "manual" else value

    assert [message["payload"] for message in messages] == [None] * len(payloads)
    assert [payload_of(message) for message in messages] == payloads
    assert deserialized == []
    assert UNUSED_MODULE not in sys.modules


def test_without_auto_a_sensor_that_returns_its_lease_needs_no_retries() -> None:
    assert WorkflowInboxSensor(task_id="t", inbox="orders", acknowledge="manual", retries=0).retries == 0
