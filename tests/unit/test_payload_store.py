"""Payloads in the user's own object storage: what confs have of them, what reads them, and what fails."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException, TaskDeferred

from airflow_provider_workflow import clock
from airflow_provider_workflow.decorators.inbox_dag import MessagePlaceholder
from airflow_provider_workflow.dispatch import payload_store
from airflow_provider_workflow.dispatch.dead_letters import message_of
from airflow_provider_workflow.dispatch.payload_store import PayloadStore, PayloadStoreError
from airflow_provider_workflow.dispatch.payloads import payload_of
from airflow_provider_workflow.dispatch.replay import Replay
from airflow_provider_workflow.operators.inbox import WorkflowInboxDispatchOperator
from airflow_provider_workflow.triggers.event import WorkflowInboxEventTrigger
from airflow_provider_workflow.triggers.inbox import WorkflowInboxTrigger
from tests.unit.dispatch.batching import Function, batches
from tests.unit.fake_clock import FakeClock
from tests.unit.fakes import api_error
from tests.unit.sensors.tasks import Task
from tests.unit.workbench import INBOX, Workbench

MARKER = "a customer's name"
LARGE = {"name": MARKER, "lines": list(range(100))}
REJECTED = api_error(400, "value_error", "Invalid input for param customer")
PATH, THRESHOLD = (f"AIRFLOW__WORKFLOW__PAYLOAD_OBJECTSTORAGE_{name}" for name in ("PATH", "THRESHOLD"))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The store, for every payload."""
    path = tmp_path / "payloads"
    monkeypatch.setenv(PATH, f"file://{path}")
    monkeypatch.setenv(THRESHOLD, "0")
    return path


def objects(folder: Path) -> list[Path]:
    """The stored payloads."""
    return [path for path in sorted(folder.rglob("*.json")) if path.name != payload_store.CHECK_NAME]


def dispatch(bench: Workbench, **arguments: Any) -> Any:
    operator = WorkflowInboxDispatchOperator(
        task_id="t", inbox=INBOX, **{"trigger_dag_id": "handle", **arguments}
    )
    return operator.execute({"ti": bench.ti})  # type: ignore[typeddict-item]


def messages(bench: Workbench, dag_id: str = "handle") -> dict[str, dict[str, Any]]:
    """The messages in the confs of runs, by id, as they come from Airflow's database."""
    confs = [
        json.loads(json.dumps(conf)) for (dag, _), conf in bench.supervisor.runs.items() if dag == dag_id
    ]
    return {conf["message"]["id"]: conf["message"] for conf in confs}


def test_a_run_has_the_reference_of_its_payload_and_reads_it(bench: Workbench, folder: Path) -> None:
    bench.put("a", payload=LARGE)
    result = dispatch(bench)

    message = messages(bench)["a"]
    [path] = objects(folder)
    assert result["started"]["ids"] == ["a"]
    assert bench.states == {}
    assert MARKER not in json.dumps(list(bench.supervisor.runs.values()))
    assert message["payload"] is None
    assert message["payload_object"] == path.relative_to(folder).as_posix()
    assert message["payload_bytes"] == path.stat().st_size
    assert json.loads(path.read_text()) == payload_of(message) == LARGE


@pytest.mark.parametrize(("more", "is_stored"), [(-1, True), (0, True), (1, False)])
def test_a_payload_of_the_threshold_or_more_is_stored(
    bench: Workbench, folder: Path, monkeypatch: pytest.MonkeyPatch, more: int, is_stored: bool
) -> None:
    monkeypatch.setenv(THRESHOLD, str(len(json.dumps(LARGE)) + more))
    bench.put("a", payload=LARGE)
    dispatch(bench)

    assert [bool(objects(folder)), messages(bench)["a"]["payload"] is None] == [is_stored] * 2
    assert payload_of(messages(bench)["a"]) == LARGE


def test_without_a_path_nothing_is_written_or_checked(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PayloadStore, "write", lambda *_: pytest.fail("written"))
    bench.put("a", payload=LARGE)
    dispatch(bench)

    assert messages(bench)["a"]["payload"] == LARGE


def test_a_dead_letter_and_its_replay_have_the_reference(bench: Workbench, folder: Path) -> None:
    bench.allow_dead_letters()
    bench.put("a", payload=LARGE, lease_count=3)
    bench.supervisor.refuse("handle", REJECTED)
    bench.supervisor.faults[:] = [lambda request: REJECTED if request.dag_id == "handle" else None]
    with pytest.raises(Exception, match="rejected"):
        dispatch(bench, dead_letter_dag_id="dead")

    [conf] = bench.dead_letters.values()
    assert MARKER not in json.dumps(conf)
    message = message_of(conf)
    assert (message["payload"], set(message)) == (
        LARGE,
        {"id", "created_at", "payload", "message_attributes"},
    )
    replayed = Replay.of(conf).conf["message"]
    assert MARKER not in json.dumps(replayed)
    assert payload_of(replayed) == LARGE
    assert len(objects(folder)) == 1


def test_a_dead_letter_whose_payload_cannot_be_written_is_left_to_its_lease(
    bench: Workbench,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    fake_clock: FakeClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    bench.allow_dead_letters(after=1)
    bench.put("a", payload={"of": "a"})
    bench.put("b", payload={"of": "b"})
    write = PayloadStore.write

    def write_all_but_one(store: PayloadStore, name: str, content: bytes) -> None:
        write(PayloadStore("file:///dev/null/no", 0) if b'"b"' in content else store, name, content)

    monkeypatch.setattr(PayloadStore, "write", write_all_but_one)
    schema = {"properties": {"of": {"const": "a"}}}
    with pytest.raises(AirflowFailException, match="and its dead letter was not started: The payload store"):
        dispatch(bench, dead_letter_dag_id="dead", dead_letter_after=1, schema=schema)

    assert (set(messages(bench)), bench.dead_letters) == ({"a"}, {})
    assert bench.states == {"b": "leased"}
    assert "message b was rejected, and its dead letter in the DAG dead was not started" in caplog.text


def test_a_dead_letter_of_a_batch_has_the_reference(bench: Workbench, folder: Path) -> None:
    bench.allow_dead_letters(after=1)
    bench.put("bad", payload=LARGE)
    worker = batches(bench, Function({"bad"}, names=True))
    worker.store = PayloadStore.configured()
    worker.__post_init__()
    worker.run()

    [conf] = bench.dead_letters.values()
    assert MARKER not in json.dumps(conf)
    assert message_of(conf)["payload"] == LARGE


def test_messages_with_one_business_key_and_other_payloads_keep_their_own(
    bench: Workbench, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    bench.put("a", payload={"key": 1, "of": "a"})
    bench.put("b", payload={"key": 1, "of": "b"})
    bench.put("c", payload={"key": 1, "of": "a"})
    result = dispatch(bench, once_per="payload.key")

    assert (result["started"]["ids"], result["repeated"]["ids"]) == (["a"], ["b", "c"])
    assert payload_of(messages(bench)["a"]) == {"key": 1, "of": "a"}
    assert [text for text in caplog.messages if "another payload" in text] == [
        "Inbox orders: message b has the business key of message a, and another payload; its run is that of"
        " message a, so this payload starts none"
    ]


@pytest.mark.usefixtures("fake_clock")
def test_repeats_are_compared_without_reading_the_store(
    bench: Workbench, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    bench.put("a", payload={"key": 1})
    dispatch(bench, once_per="payload.key")
    [path] = objects(folder)
    path.unlink()
    bench.put("b", payload={"key": 1})

    assert dispatch(bench, once_per="payload.key")["repeated"]["ids"] == ["b"]
    assert "another payload" not in caplog.text


def test_a_file_has_its_content_when_the_disk_is_told_to_keep_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda file: sizes.append(os.fstat(file).st_size))
    store = PayloadStore.configured()
    assert store is not None
    store.write("a.json", b"{}")

    assert sizes == [2]


@pytest.mark.parametrize("unstorable", [False, True])
def test_repeats_are_compared_with_a_run_from_before_the_store(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: Any, unstorable: bool
) -> None:
    payload = {"key": 1, "text": "\0" if unstorable else "x"}
    bench.put("a", payload=payload)
    dispatch(bench, once_per="payload.key")
    monkeypatch.setenv(PATH, f"file://{tmp_path}")
    monkeypatch.setenv(THRESHOLD, "0")
    bench.put("b", payload=payload)
    bench.put("c", payload={**payload, "more": 1})
    dispatch(bench, once_per="payload.key")

    assert [text[:25] for text in caplog.messages if "another payload" in text] == [
        "Inbox orders: message c h"
    ]


def test_a_redelivered_message_whose_payload_was_written_before_starts_its_run(
    bench: Workbench, folder: Path
) -> None:
    """The process was killed between the payload and the run."""
    store = PayloadStore.configured()
    assert store is not None
    bench.put("a", payload=LARGE, lease_count=1)
    reference = store.with_reference(bench.inbox_id, {"id": "a", "payload": LARGE})
    dispatch(bench)

    assert messages(bench)["a"]["payload_object"] == reference["payload_object"]
    assert len(objects(folder)) == 1


def test_ids_that_are_no_names_of_files_stay_below_the_folder(bench: Workbench, folder: Path) -> None:
    ids = ["../../../evil", "/etc/passwd", "a\0b", "\ud800", "x" * 5000, "s3://other/bucket", ".."]
    for number, message_id in enumerate(ids):
        bench.put(message_id, payload={"number": number})
    dispatch(bench)

    payloads = [payload_of(message) for message in messages(bench).values()]
    assert sorted(payload["number"] for payload in payloads) == list(range(len(ids)))
    assert len(objects(folder)) == len(ids)
    assert [path for path in folder.parent.iterdir() if path != folder] == []


def broken(folder: Path) -> None:
    """Let no payload be written: a file is where the folder should be."""
    folder.write_text("")


def test_while_the_store_is_down_nothing_is_leased_and_after_five_minutes_that_is_an_alarm(
    bench: Workbench, folder: Path, fake_clock: FakeClock
) -> None:
    bench.allow_dead_letters()
    bench.put("a", payload=LARGE, lease_count=3)
    broken(folder)
    with pytest.raises(
        AirflowFailException, match=r"^The payload store file://.* cannot be written: "
    ) as error:
        dispatch(bench, dead_letter_dag_id="dead")

    assert 300 <= clock.now() - fake_clock.start <= 420
    assert MARKER not in str(error.value)
    assert (bench.states, bench.dead_letters) == ({"a": "available"}, {})
    assert bench.service.count("lease") == 0
    folder.unlink()
    assert dispatch(bench)["started"]["ids"] == ["a"]


def test_a_payload_that_cannot_be_written_delays_no_other_message_and_is_no_dead_letter(
    bench: Workbench,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    fake_clock: FakeClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    bench.allow_dead_letters(after=1)
    for message_id in "abcde":
        bench.put(message_id, payload={"of": message_id})
    write = PayloadStore.write

    def write_all_but_one(store: PayloadStore, name: str, content: bytes) -> None:
        write(PayloadStore("file:///dev/null/no", 0) if b'"c"' in content else store, name, content)

    monkeypatch.setattr(PayloadStore, "write", write_all_but_one)
    dispatch(bench, dead_letter_dag_id="dead")

    assert set(messages(bench)) == {"a", "b", "d", "e"}
    assert (bench.dead_letters, bench.states) == ({}, {"c": "leased"})
    [listed] = bench.hook.list_messages(INBOX)
    assert listed["message_attributes"]["lease_count"] <= 2
    assert "cannot be written: NotADirectoryError" in caplog.text


def test_a_run_that_is_written_too_late_is_not_started(
    bench: Workbench, folder: Path, monkeypatch: pytest.MonkeyPatch, fake_clock: FakeClock
) -> None:
    bench.put("a", payload=LARGE)
    monkeypatch.setattr(payload_store, "write_to_disk", lambda *_: fake_clock.advance(280))
    dispatch(bench)

    assert bench.supervisor.runs == {}


def test_a_missing_and_a_changed_object_are_named(bench: Workbench, folder: Path) -> None:
    bench.put("a", payload=LARGE)
    dispatch(bench)
    message = messages(bench)["a"]
    [path] = objects(folder)
    path.write_text(json.dumps({"name": "another"}))
    with pytest.raises(PayloadStoreError, match="was changed"):
        payload_of(message)
    path.unlink()
    with pytest.raises(PayloadStoreError, match="There is no payload of message a in the") as error:
        payload_of(message)

    assert message["payload_object"] in str(error.value)


@pytest.mark.parametrize(
    "change",
    [
        {"payload_object": "../../etc/passwd"},
        {"payload_object": "s3://bucket/key"},
        {"payload_object": "/etc/passwd"},
        {"payload_object": 7},
        {"payload_sha256": "0" * 64},
        {"payload_sha256": None},
        {"id": "b"},
        {"id": None},
    ],
)
def test_a_reference_that_a_user_made_up_opens_nothing(
    bench: Workbench, folder: Path, change: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.put("a", payload=LARGE)
    dispatch(bench)
    monkeypatch.setattr(PayloadStore, "root", property(lambda _: pytest.fail("opened")))

    with pytest.raises(PayloadStoreError, match="is not the name of its payload"):
        payload_of({**messages(bench)["a"], **change})


def test_a_process_without_the_option_says_which_one_it_needs(
    bench: Workbench, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.put("a", payload=LARGE)
    dispatch(bench)
    monkeypatch.delenv(PATH)

    with pytest.raises(PayloadStoreError, match=r"set \[workflow\] payload_objectstorage_path"):
        payload_of(messages(bench)["a"])


def test_a_task_reads_the_payload_only_if_it_asks_for_it(bench: Workbench, folder: Path) -> None:
    bench.put("a", payload=LARGE)
    dispatch(bench)
    context = {"dag_run": type("Run", (), {"conf": {"message": messages(bench)["a"]}})(), "params": {}}
    message = MessagePlaceholder().resolve(context)
    [path] = objects(folder)
    content = path.read_text()
    path.unlink()

    assert message["id"] == "a"
    assert MARKER not in json.dumps(message)
    path.write_text(content)
    assert message["payload"] == LARGE
    assert MessagePlaceholder(("payload", "lines", 7)).resolve(context) == 7


@pytest.mark.parametrize(
    "acknowledge",
    [pytest.param("auto", marks=pytest.mark.since(3, 3, "the task state store")), "manual"],
)
def test_a_sensor_returns_and_stores_the_reference(bench: Workbench, folder: Path, acknowledge: Any) -> None:
    bench.put("a", payload=LARGE)
    task = Task(bench, trigger_dag_id=None, acknowledge=acknowledge, deferrable=False)
    value = task.execute()

    [message] = value if acknowledge == "auto" else value["messages"]
    assert MARKER not in json.dumps([value, task.store.rows])
    assert payload_of(message) == LARGE


async def test_the_trigger_of_a_sensor_leases_nothing_and_fires_when_messages_are_available(
    bench: Workbench, folder: Path, fake_clock: FakeClock
) -> None:
    deferral = Task(bench).execute()
    assert isinstance(deferral, TaskDeferred)
    _, arguments = deferral.trigger.serialize()
    leases = bench.service.count("lease")
    fake_clock.meanwhile = lambda _: bench.states or bench.put("a", payload=LARGE)
    events = [event.payload async for event in WorkflowInboxTrigger(**arguments).run()]

    assert [event["status"] for event in events] == ["poll"]
    assert bench.service.count("lease") == leases
    assert bench.states == {"a": "available"}


@pytest.mark.parametrize("arguments", [{}, {"trigger_dag_id": None, "acknowledge": "manual"}])
def test_a_deferred_sensor_waits_longer_and_longer_while_the_store_is_down(
    bench: Workbench, folder: Path, fake_clock: FakeClock, arguments: dict[str, Any]
) -> None:
    bench.put("a", payload=LARGE)
    broken(folder)
    task = Task(bench, **arguments)
    deferral = task.execute()
    holds: list[float] = []
    for _ in range(4):
        assert isinstance(deferral, TaskDeferred)
        _, kwargs = deferral.trigger.serialize()
        holds.append(kwargs["hold_seconds"])
        fake_clock.advance(kwargs["hold_seconds"])
        deferral = task.resume(deferral, {"status": "poll"})

    assert holds == [5.0, 10.0, 20.0, 40.0]
    assert bench.states == {"a": "available"}
    assert bench.service.count("lease") == 0
    fake_clock.advance(300)
    with pytest.raises(AirflowFailException, match="payload store"):
        task.resume(deferral, {"status": "poll"})


@pytest.mark.since(3, 3, "the acknowledging of asset events")
def test_the_event_trigger_is_refused_as_events_have_payloads(folder: Path) -> None:
    with pytest.raises(ValueError, match="WorkflowInboxNoticeTrigger"):
        WorkflowInboxEventTrigger(INBOX)


def test_a_threshold_that_is_no_number_is_named_and_releases_the_lease_of_a_trigger(
    bench: Workbench, folder: Path, monkeypatch: pytest.MonkeyPatch, fake_clock: FakeClock
) -> None:
    bench.put("a", payload=LARGE)
    task = Task(bench)
    leased = task.leased()
    monkeypatch.setenv(THRESHOLD, "64 kB")
    with pytest.raises(PayloadStoreError, match="The threshold is a number of bytes"):
        task.sensor.resume(task.context, leased)

    assert bench.states == {"a": "available"}
