"""The event trigger: its arguments, and several watchers of one inbox."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from airflow.exceptions import AirflowOptionalProviderFeatureException

from airflow_provider_workflow.triggers.event import WorkflowInboxEventTrigger
from airflow_provider_workflow.triggers.notice import WorkflowInboxNoticeTrigger
from tests.unit.fake_clock import FakeClock
from tests.unit.triggers.conftest import ODD, Triggerer, event_trigger, put
from tests.unit.workbench import Workbench

pytestmark = pytest.mark.since(3, 3, "the acknowledging of asset events")


GIVEN = {
    "inbox": "orders",
    "match": "payload.type == 'order'",
    "lease_limit": 7,
    "lease_seconds": 900,
    "min_interval": 4.5,
    "workflow_conn_id": "other",
    "poll_interval": 2,
    "max_poll_interval": 20,
    "wake_on_events": False,
    "per_message": False,
    "queue": None,
}


def test_a_trigger_comes_back_from_what_it_serializes() -> None:
    path, kwargs = WorkflowInboxEventTrigger(**GIVEN).serialize()

    assert path == "airflow_provider_workflow.triggers.event.WorkflowInboxEventTrigger"
    assert kwargs == GIVEN
    assert WorkflowInboxEventTrigger(**json.loads(json.dumps(kwargs))).serialize() == (path, kwargs)


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"inbox": ""}, "inbox"),
        ({"workflow_conn_id": ""}, "workflow_conn_id"),
        ({"lease_limit": 101}, "lease_limit"),
        ({"min_interval": 0}, "min_interval"),
        ({"poll_interval": 70}, "max_poll_interval"),
        ({"wake_on_events": "False"}, "wake_on_events"),
        ({"per_message": "False"}, "per_message must be True or False"),
        ({"queue": " "}, "queue must be a string that is not empty"),
        ({"match": "payload.["}, "match is no valid JMESPath expression"),
    ],
)
def test_a_wrong_argument_fails_where_the_dag_is_parsed(wrong: dict[str, Any], field: str) -> None:
    with pytest.raises(ValueError, match=field.replace("[", r"\[")):
        WorkflowInboxEventTrigger(**{"inbox": "orders", **wrong})


def test_a_lease_that_airflow_may_outlast_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="shared_stream_ack_timeout"):
        WorkflowInboxEventTrigger("orders", lease_seconds=300)

    monkeypatch.setenv("AIRFLOW__TRIGGERER__SHARED_STREAM_ACK_TIMEOUT", "60")
    assert WorkflowInboxEventTrigger("orders", lease_seconds=61).lease_seconds == 61

    monkeypatch.setenv("AIRFLOW__TRIGGERER__SHARED_STREAM_ACK_TIMEOUT", "700")
    with pytest.raises(ValueError, match=r"\(600 s\) must be more than .* \(700 s\)"):
        WorkflowInboxEventTrigger("orders")


INSTEAD = "use WorkflowInboxNoticeTrigger with WorkflowInboxDispatchOperator instead."


@pytest.mark.parametrize(
    ("minor", "arguments", "text"),
    [
        (2, {}, f"WorkflowInboxEventTrigger needs Airflow 3.3 or later, and this is 3.2.0; {INSTEAD}"),
        (
            3,
            {"per_message": True},
            "WorkflowInboxEventTrigger(per_message=True) needs Airflow 3.4 or later, and this is 3.3.0;"
            f" {INSTEAD}",
        ),
        (
            3,
            {"queue": "watchers"},
            "WorkflowInboxEventTrigger(queue=...) needs Airflow 3.4 or later, and this is 3.3.0;"
            " leave it out, and every triggerer may run the watcher.",
        ),
    ],
)
def test_what_a_newer_airflow_has_is_named_with_its_version_and_the_cure(
    release: Callable[[int, int], None], minor: int, arguments: dict[str, Any], text: str
) -> None:
    release(3, minor)
    with pytest.raises(AirflowOptionalProviderFeatureException) as error_info:
        WorkflowInboxEventTrigger("orders", **arguments)

    assert str(error_info.value) == text


@pytest.mark.parametrize(
    ("trigger", "newer"),
    [
        (WorkflowInboxEventTrigger, {"per_message": True, "queue": "watchers"}),
        (WorkflowInboxNoticeTrigger, {"queue": "watchers"}),
    ],
)
def test_what_needs_airflow_3_4_is_serialized(
    release: Callable[[int, int], None], trigger: Any, newer: dict[str, Any]
) -> None:
    release(3, 4)
    path, kwargs = trigger("orders", **newer).serialize()

    assert newer.items() <= kwargs.items()
    assert trigger(**kwargs).serialize() == (path, kwargs)


@pytest.mark.since(3, 4, "queues of triggerers")
def test_airflow_stores_the_queue_of_triggerers_beside_it() -> None:
    from airflow.serialization.encoders import encode_trigger

    for trigger in (WorkflowInboxEventTrigger, WorkflowInboxNoticeTrigger):
        assert encode_trigger(trigger("orders", queue="watchers"))["queue"] == "watchers"
    assert "queue" not in encode_trigger(WorkflowInboxNoticeTrigger("orders"))


async def test_an_older_triggerer_survives_one_that_was_stored_before_airflow_was_downgraded(
    release: Callable[[int, int], None],
) -> None:
    release(3, 2)
    with pytest.raises(TypeError, match=r"needs Airflow 3\.3 or later"):
        WorkflowInboxEventTrigger("orders")


@pytest.mark.slow
def test_the_module_imports_where_airflow_has_no_shared_streams() -> None:
    code = (
        "import sys; sys.modules['airflow.triggers.shared_stream'] = None\n"
        "import airflow_provider_workflow.triggers.event"
    )
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert process.returncode == 0, process.stderr


def test_watchers_that_differ_only_in_what_they_make_of_messages_share_a_poller(
    release: Callable[[int, int], None],
) -> None:
    release(3, 4)
    one = WorkflowInboxEventTrigger("orders")
    other = WorkflowInboxEventTrigger("orders", match="payload", per_message=True, queue="watchers")

    assert one.shared_stream_key() == other.shared_stream_key()


def test_whatever_else_shapes_the_polling_is_part_of_the_key() -> None:
    changes: dict[str, Any] = {
        "inbox": "invoices",
        "lease_limit": 8,
        "lease_seconds": 901,
        "min_interval": 5,
        "workflow_conn_id": "another",
        "poll_interval": 3,
        "max_poll_interval": 30,
        "wake_on_events": True,
    }
    keys = {
        WorkflowInboxEventTrigger(**{**GIVEN, name: value}).shared_stream_key()
        for name, value in changes.items()
    }

    assert set(changes) == set(GIVEN) - {"match", "per_message", "queue"}
    assert len(keys | {WorkflowInboxEventTrigger(**GIVEN).shared_stream_key()}) == len(changes) + 1


async def test_it_does_not_run_by_itself() -> None:
    with pytest.raises(NotImplementedError, match="AssetWatcher"):
        await anext(WorkflowInboxEventTrigger("orders").run())


async def test_twenty_watchers_select_from_a_megabyte_in_threads_and_each_gets_what_it_wants(
    bench: Workbench, triggerer: Triggerer, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: set[int] = set()

    def noted(watcher: Any, messages: Any) -> Any:
        threads.add(threading.get_ident())
        return sift(watcher, messages)

    sift = WorkflowInboxEventTrigger.matching
    monkeypatch.setattr(WorkflowInboxEventTrigger, "matching", noted)
    for number in range(20):
        bench.put(f"m{number:02}", payload={"n": number, "items": [{"price": p} for p in range(3_000)]})
    watchers = [
        triggerer.start(event_trigger(match=f"payload.n == `{number}` && sort_by(payload.items, &price)"))
        for number in range(20)
    ]
    await triggerer.work(20)

    assert [triggerer.stored_ids(watcher) for watcher in watchers] == [
        [f"m{number:02}"] for number in range(20)
    ]
    assert bench.states == {}
    assert bench.service.summary("orders")["counters"]["leases"] == 1
    assert threads
    assert threading.get_ident() not in threads


async def test_a_message_that_two_want_waits_for_both_events(
    bench: Workbench, triggerer: Triggerer, held_clock: FakeClock
) -> None:
    put(bench, 1)
    triggerer.start(event_trigger())
    triggerer.start(event_trigger(match=ODD))
    await held_clock.elapse(5)
    entries = list(triggerer.runner.events)
    assert len(entries) == 2
    triggerer.streams.confirm_persisted([entries[0].persist_seq])
    await held_clock.elapse(30)
    assert bench.states == {"m1": "leased"}

    triggerer.streams.confirm_persisted([entries[1].persist_seq])
    await held_clock.elapse(10)
    assert bench.states == {}


async def test_a_batch_whose_event_is_stored_late_holds_up_no_other(
    bench: Workbench, triggerer: Triggerer, held_clock: FakeClock
) -> None:
    put(bench, 1, 2)
    triggerer.start(event_trigger(lease_limit=1))
    await held_clock.elapse(8)
    first, second = triggerer.runner.events
    triggerer.streams.confirm_persisted([second.persist_seq])
    await held_clock.elapse(10)
    assert bench.states == {"m1": "leased"}

    triggerer.streams.confirm_persisted([first.persist_seq])
    await held_clock.elapse(10)
    assert bench.states == {}


async def test_events_carry_a_batch_each_and_keep_their_distance(
    bench: Workbench, triggerer: Triggerer, held_clock: FakeClock
) -> None:
    put(bench, *range(25))
    triggerer.start(event_trigger(lease_limit=10, min_interval=4))
    moments = []
    for _ in range(30):
        await held_clock.elapse(1)
        if triggerer.unstored:
            moments.append(held_clock.now())
        triggerer.store()
        await held_clock.settle()

    assert [payload["count"] for _, payload in triggerer.stored] == [10, 10, 5]
    assert [later - earlier for earlier, later in pairwise(moments)] == [4, 4]
    assert bench.states == {}


async def test_a_large_batch_is_several_events(bench: Workbench, triggerer: Triggerer) -> None:
    bench.put("a", "b", "c", payload="x" * 400_000)
    triggerer.start(event_trigger())
    await triggerer.work(15)

    assert [payload["count"] for _, payload in triggerer.stored] == [2, 1]
    assert bench.service.summary("orders")["counters"]["leases"] == 1
    assert bench.states == {}
