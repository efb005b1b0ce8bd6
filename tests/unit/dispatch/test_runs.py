"""DAG runs: ids, notes, what exists already, and the result of a task."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import msgspec
import pytest
from airflow.sdk.exceptions import AirflowRuntimeError, ErrorType
from airflow.sdk.execution_time.comms import ErrorResponse, TriggerDagRun
from pydantic import ValidationError

from airflow_provider_workflow.client.arguments import NAME_LENGTH
from airflow_provider_workflow.client.errors import WorkflowError
from airflow_provider_workflow.dispatch import runs
from airflow_provider_workflow.dispatch.blame import Reason
from airflow_provider_workflow.dispatch.dead_letters import conf_of
from airflow_provider_workflow.dispatch.delivery import Delivery
from airflow_provider_workflow.dispatch.results import Counts
from airflow_provider_workflow.dispatch.run_errors import (
    MessageFault,
    RunRejected,
    ServerFault,
    TargetError,
    param_of,
)
from airflow_provider_workflow.dispatch.runs import Start, TaskRuns
from airflow_provider_workflow.operators.dead_letters import WorkflowDeadLetterReplayOperator
from airflow_provider_workflow.operators.inbox import WorkflowInboxDispatchOperator
from tests.unit.fakes import Fault, Supervisor, TaskInstance, api_error, lost, unwrapped
from tests.unit.notes import HOSTILE, IMAGE, is_harmless
from tests.unit.workbench import Workbench

REJECTED = api_error(400, "value_error", "Invalid input for param message: 'a secret' is too long")

RUNS = TaskRuns(TaskInstance())


def test_a_new_run_is_started_with_its_conf_and_found_after_that(supervisor: Supervisor) -> None:
    assert RUNS.start("handle", "workflow__1", {"message": 1}) is Start.STARTED
    assert supervisor.runs == {("handle", "workflow__1"): {"message": 1}}
    assert RUNS.start("handle", "workflow__1", {"message": 1}) is Start.EXISTING


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (api_error(422), "Airflow cannot check the DAG 'handle'"),
        (EOFError(), "The task's supervisor gives no usable answer"),
        (ValidationError.from_exception_data("secret", []), "no usable answer: ValidationError"),
    ],
)
def test_an_existing_run_that_cannot_be_read_is_an_error_of_the_target(
    supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch, error: Exception, text: str
) -> None:
    RUNS.start("handle", "workflow__1", {"message": 1})
    monkeypatch.setattr(runs, "stored_dag_run", Mock(side_effect=error))

    with pytest.raises(TargetError, match=text):
        RUNS.start("handle", "workflow__1", {"message": 1})


@pytest.mark.parametrize(("payload", "cause"), [("\ud800", "UnicodeEncodeError"), (2**70, "OverflowError")])
def test_what_airflow_cannot_encode_is_refused_before_it_is_sent(
    supervisor: Supervisor, payload: Any, cause: str
) -> None:
    with pytest.raises(RunRejected, match=cause):
        RUNS.start("handle", "workflow__1", {"message": payload})
    assert supervisor.requests == []


@pytest.mark.parametrize(
    ("error", "meaning"),
    [
        (RecursionError(), MessageFault),
        (lost("PydanticSerializationError"), MessageFault),
        (api_error(413), MessageFault),
        (unwrapped(413), MessageFault),
        (api_error(400, "conf_too_large"), MessageFault),
        (api_error(400, "value_error"), RunRejected),
        (api_error(422), RunRejected),
        (unwrapped(400, "value_error"), RunRejected),
        (api_error(500), ServerFault),
        (unwrapped(500), ServerFault),
        (lost("HTTPStatusError"), ServerFault),
        (
            lost("HTTPStatusError", "Client error '413 Request Entity Too Large' for url 'http://'"),
            MessageFault,
        ),
        (api_error(404, "not_found"), TargetError),
        (api_error(400, "import_errors"), TargetError),
        (api_error(400, "denied_run_type"), TargetError),
        *((api_error(status), TargetError) for status in (401, 403, 408, 429)),
        (lost("ConnectError"), TargetError),
        (AirflowRuntimeError(ErrorResponse(error=ErrorType.GENERIC_ERROR, detail=None)), TargetError),
        (ErrorResponse(error=ErrorType.GENERIC_ERROR), TargetError),
        (BrokenPipeError(), TargetError),
    ],
)
def test_an_error_is_about_one_run_or_about_everything(
    supervisor: Supervisor, error: Fault, meaning: type[Exception]
) -> None:
    supervisor.fail(error)

    with pytest.raises(meaning) as error_info:
        RUNS.start("handle", "workflow__1", {})
    assert type(error_info.value) is meaning


def test_a_check_asks_for_the_dag_and_nothing_else(supervisor: Supervisor) -> None:
    ti = TaskInstance(supervisor=supervisor)
    TaskRuns(ti).check_target("handle")

    assert (ti.dags_asked, supervisor.requests) == (["handle"], [])
    for fault in (api_error(404), api_error(500), lost("ConnectError")):
        ti.dag_fault = fault
        with pytest.raises(TargetError):
            TaskRuns(ti).check_target("handle")


@pytest.mark.parametrize(
    ("stored", "origin", "is_found"),
    [
        (None, "by a task", False),
        ({"inbox_id": "another"}, "by a task", False),
        ({"message": {"id": "other"}}, "by a task", False),
        ({"message": {"id": "1", "payload": 2}}, "by a task", True),
        ({"message": {"id": "1", "payload": 2}}, "by a task of a user", True),
        ({"message": {"id": "1", "payload": 2}}, "by a user", False),
    ],
)
def test_a_run_is_that_of_its_message_and_of_no_other(
    supervisor: Supervisor, stored: dict[str, Any] | None, origin: str, is_found: bool
) -> None:
    key = "handle", "workflow__1"
    conf = {"inbox_id": "i", "message": {"id": "1", "payload": 1}}
    supervisor.runs[key] = stored if stored is None else {**conf, **stored}  # type: ignore[assignment]
    if "user" in origin:
        supervisor.users[key] = "somebody"
    if "task" in origin:
        supervisor.by_tasks.add(key)
    task_runs = TaskRuns(TaskInstance(supervisor=supervisor))

    assert task_runs.find(*key, conf) is (Start.EXISTING if is_found else None)
    if is_found:
        assert task_runs.start(*key, conf) is Start.EXISTING
    else:
        text = "the run workflow__1 of the DAG 'handle' exists, and a user or another message started it"
        with pytest.raises(MessageFault, match=text):
            task_runs.start(*key, conf)


def test_a_run_is_that_of_its_message_though_the_connection_was_renamed(bench: Workbench) -> None:
    bench.put("a")
    bench.start_before("a")
    bench.supervisor.runs["handle", bench.run_id("a")]["connection_id"] = "another"
    dispatcher = bench.dispatcher()
    dispatcher.drain()

    assert dispatcher.counts.result["existing"]["ids"] == ["a"]
    assert bench.states == {}


CARD = "4111 1111 1111 1111"


@pytest.mark.parametrize(
    ("sentence", "suffix"),
    [
        (f"Invalid input for param card: '{CARD}' is too long\n\nOn instance:\n '{CARD}'", ": param card"),
        ("Invalid input for param card: No value passed and Param is required", ": param card"),
        (f"Something about '{CARD}'", ""),
        (None, ""),
    ],
)
def test_a_reason_names_the_param_and_nothing_else_of_the_sentence(sentence: str | None, suffix: str) -> None:
    assert param_of(sentence) == suffix


def test_queued_and_running_runs_are_unfinished() -> None:
    ti = TaskInstance(unfinished=lambda dag_id: 7)

    assert TaskRuns(ti).unfinished("handle") == 7
    assert ti.counts == [("handle", ("queued", "running"))]


def test_an_answer_that_cannot_be_decoded_is_of_airflow(supervisor: Supervisor) -> None:
    supervisor.fail(ValidationError.from_exception_data("an answer", []))
    text = r"gives no usable answer: ValidationError\. No message is lost\.$"
    with pytest.raises(TargetError, match=text):
        RUNS.start("handle", "workflow__1", {})


UUID = "0b6c2c8e-7f3a-4a52-9d0b-1f1e3c8a9b10"
INBOX = "6f1c0e7a-0d52-4b8e-a7c1-2f8b5f1f0c11"


def digest(message_id: str) -> str:
    """The hash of a message of the inbox: over the length of the inbox id, that id, and the message id."""
    text = f"{len(INBOX)}:{INBOX}{message_id}"
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


LONGEST = "x" * 222


@pytest.mark.parametrize("message_id", [UUID, LONGEST])
def test_a_run_id_names_the_message_and_ends_with_a_hash_of_inbox_and_message(message_id: str) -> None:
    assert runs.run_id_of(message_id, INBOX) == f"workflow__{message_id}__{digest(message_id)[:16]}"


@pytest.mark.parametrize(
    "message_id", ["a?b", "a%41b", "a/b", "a\n", "a..b", "", "\ud800", LONGEST + "x", "dead__m-1", "dead__"]
)
def test_an_id_that_is_unsafe_too_long_or_like_that_of_a_dead_letter_is_hashed(message_id: str) -> None:
    run_id = runs.run_id_of(message_id, INBOX)

    assert run_id == f"workflow__{digest(message_id)}"
    assert run_id != runs.run_id_of(message_id.removeprefix("dead__"), INBOX, runs.DEAD_LETTER_PREFIX)


def test_no_boundary_between_inbox_and_message_can_be_shifted() -> None:
    assert runs.run_id_of("b\0c d", "a") != runs.run_id_of("c d", "a\0b")
    assert runs.run_id_of("c d", "ab") != runs.run_id_of("bc d", "a")


@pytest.mark.parametrize("message_id", [UUID, "a/b"])
def test_two_inboxes_that_share_a_message_id_share_no_run(message_id: str) -> None:
    assert runs.run_id_of(message_id, INBOX) != runs.run_id_of(message_id, "another")


def test_the_origin_of_a_run_stays_readable() -> None:
    ti = SimpleNamespace(dag_id="listener", run_id="manual__2026-01-01")

    assert runs.origin_of({"ti": ti}) == "the run `manual__2026-01-01` of `listener`"


def rejects_bad_payloads(order: TriggerDagRun) -> Fault | None:
    is_bad = order.dag_id == "handle" and order.conf is not None and order.conf["message"]["payload"] == "bad"
    return REJECTED if is_bad else None


def test_an_operator_starts_runs_and_dead_letters_with_harmless_notes(bench: Workbench) -> None:
    inbox = HOSTILE[:NAME_LENGTH]
    bench.ti.run_id = IMAGE * 7  # type: ignore[attr-defined]
    bench.service.open_inbox(inbox)
    bench.service.put(inbox, "good", "bad", ids=[HOSTILE, f"{HOSTILE}?"])
    bench.supervisor.dags.add("dead")
    bench.supervisor.faults.append(rejects_bad_payloads)

    routes: Any = {"trigger_dag_id": "handle", "dead_letter_dag_id": "dead", "dead_letter_after": 1}
    WorkflowInboxDispatchOperator(task_id="t", inbox=inbox, **routes).execute({"ti": bench.ti})

    notes = {order.dag_id: order.note for order in bench.supervisor.requests}
    assert {dag_id: is_harmless(note) for dag_id, note in notes.items()} == {"handle": True, "dead": True}
    assert f", started by the run `{IMAGE}" in str(notes["handle"])


def test_so_does_an_operator_that_replays(bench: Workbench) -> None:
    bench.ti.run_id = IMAGE * 7  # type: ignore[attr-defined]
    delivery = Delivery.of(HOSTILE, {"id": HOSTILE, "payload": 1, "message_attributes": {"lease_count": 3}})
    conn_id, run_id = bench.hook.workflow_conn_id, runs.run_id_of(HOSTILE, HOSTILE)
    conf = conf_of(delivery, conn_id, "handle", Reason.REJECTED, "a cause", run_id)
    operator = WorkflowDeadLetterReplayOperator(task_id="t", conf=dict(conf))
    operator.execute({"ti": bench.ti, "dag_run": SimpleNamespace(conf=None)})

    assert [is_harmless(order.note) for order in bench.supervisor.requests] == [True]


def test_every_outcome_is_counted_with_its_ids() -> None:
    counts = Counts()
    counts.count("started", "a")
    counts.count("existing", "b")
    counts.reject("c", "too deep")
    counts.count("dead_lettered", "d")

    assert counts.result == {
        "started": {"count": 1, "ids": ["a"]},
        "existing": {"count": 1, "ids": ["b"]},
        "repeated": {"count": 0, "ids": []},
        "rejected": {"count": 1, "ids": ["c"]},
        "dead_lettered": {"count": 1, "ids": ["d"]},
    }
    assert counts.handled == 4
    assert counts.summary() == "1 started, 1 existing, 1 rejected, 1 dead-lettered"


def test_only_the_first_100_ids_are_kept_and_ten_causes_told_and_all_are_counted() -> None:
    counts = Counts()
    for number in range(150):
        counts.count("started", str(number))
        counts.reject(f"m{number}", "cause")

    first_ids = [str(number) for number in range(100)]
    assert counts.result["started"] == {"count": 150, "ids": first_ids}
    assert counts.rejected_text().startswith("150 messages were rejected")
    assert counts.rejected_text().count("cause") == 10
    assert len(counts.causes) == 100


def test_a_rejected_message_counts_by_its_last_outcome() -> None:
    counts = Counts()
    counts.reject("a", "too deep")
    counts.reject("a", "too deep")
    assert counts.result["rejected"] == {"count": 1, "ids": ["a"]}

    after = Counts.carried(json.loads(json.dumps(asdict(counts))))
    assert after.rejected_text() == "1 message was rejected and not acknowledged: a: too deep"
    after.count("dead_lettered", "a")

    assert after.handled == after.result["dead_lettered"]["count"] == 1
    assert not after.causes


def test_whatever_a_cause_quotes_it_can_cross_and_is_short() -> None:
    counts = Counts()
    counts.reject("a\0\ud800", "quotes \0 \ud800 and " + "x" * 10_000_000)

    assert len(msgspec.msgpack.encode(asdict(counts))) < 1000
    assert counts.rejected_text().isprintable()
    assert counts.result["rejected"]["ids"] == ["a\\x00\\ud800"]


def test_a_redelivered_message_with_an_odd_id_finds_its_run(bench: Workbench) -> None:
    """Escaped, its id has 320 characters."""
    bench.allow_dead_letters(after=1, unmatched="dead_letter")
    bench.put("\0" * 80)
    bench.service.fault("status", operation="ack", status=403, times=None)
    with pytest.raises(WorkflowError):
        bench.dispatcher().drain()
    bench.service.emulator.faults.clear()
    bench.service.store.messages.expire()
    bench.dispatcher(match="payload.wanted").drain()

    assert bench.dead_letters == bench.states == {}
