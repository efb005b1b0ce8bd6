"""DAG runs: ids, notes, what exists already, and the result of a task."""

from __future__ import annotations

import hashlib
import json
import re
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from airflow.sdk.exceptions import AirflowRuntimeError, ErrorType
from airflow.sdk.execution_time.comms import ErrorResponse, OKResponse, TriggerDagRun
from pydantic import ValidationError

from airflow_provider_workflow.airflow_internals import LONGEST_NOTE
from airflow_provider_workflow.client.arguments import NAME_LENGTH
from airflow_provider_workflow.dispatch import runs
from airflow_provider_workflow.dispatch.dead_letters import Reason, conf_of
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
from tests.unit.sensors.tasks import Task
from tests.unit.workbench import Workbench

REJECTED = api_error(400, "value_error", "Invalid input for param message: 'a secret' is too long")

RUNS = TaskRuns(TaskInstance())


def test_a_new_run_is_started_with_its_conf(supervisor: Supervisor) -> None:
    assert RUNS.start("handle", "workflow__1", {"message": 1}) is Start.STARTED
    assert supervisor.runs == {("handle", "workflow__1"): {"message": 1}}


def test_a_run_that_exists_counts_as_existing(supervisor: Supervisor) -> None:
    RUNS.start("handle", "workflow__1", {})

    assert RUNS.start("handle", "workflow__1", {}) is Start.EXISTING


@pytest.mark.parametrize(
    ("payload", "cause"),
    [("\ud800", "UnicodeEncodeError"), (2**70, "OverflowError")],
)
def test_what_airflow_cannot_encode_is_refused_before_it_is_sent(
    supervisor: Supervisor, payload: Any, cause: str
) -> None:
    with pytest.raises(RunRejected, match=cause):
        RUNS.start("handle", "workflow__1", {"message": payload})
    assert supervisor.asked == []


@pytest.mark.parametrize("error", [UnicodeEncodeError("utf-8", "", 0, 1, ""), RecursionError()])
def test_what_fails_while_it_is_encoded_is_refused(supervisor: Supervisor, error: Exception) -> None:
    supervisor.fail(error)

    with pytest.raises(RunRejected, match=type(error).__name__):
        RUNS.start("handle", "workflow__1", {})


@pytest.mark.parametrize(
    "error",
    [api_error(400, "value_error"), api_error(422), api_error(400), lost("PydanticSerializationError")],
)
def test_a_refusal_of_one_run_is_of_one_message(supervisor: Supervisor, error: Exception) -> None:
    supervisor.fail(error)

    with pytest.raises(RunRejected) as caught:
        RUNS.start("handle", "workflow__1", {})
    assert not isinstance(caught.value, ServerFault)


@pytest.mark.parametrize(
    ("error", "is_at_fault"),
    [
        (api_error(413), True),
        (unwrapped(413), True),
        (api_error(400, "conf_too_large"), True),
        (api_error(422, "value_error"), False),
    ],
)
def test_a_conf_that_is_too_large_is_the_fault_of_its_message(
    supervisor: Supervisor, error: Exception, is_at_fault: bool
) -> None:
    supervisor.fail(error)

    with pytest.raises(RunRejected) as caught:
        RUNS.start("handle", "workflow__1", {})
    assert isinstance(caught.value, MessageFault) is is_at_fault


@pytest.mark.parametrize("error", [api_error(500), api_error(503), lost("HTTPStatusError")])
def test_a_5xx_may_be_of_one_message_or_of_everything(supervisor: Supervisor, error: Exception) -> None:
    supervisor.fail(error)

    with pytest.raises(ServerFault):
        RUNS.start("handle", "workflow__1", {})


@pytest.mark.parametrize(
    "error",
    [
        api_error(404, "not_found"),
        api_error(400, "import_errors"),
        api_error(400, "denied_run_type"),
        api_error(401),
        api_error(403),
        api_error(429),
        lost("ConnectError"),
        AirflowRuntimeError(ErrorResponse(error=ErrorType.GENERIC_ERROR, detail=None)),
        BrokenPipeError(),
    ],
)
def test_a_missing_or_broken_dag_and_a_lost_server_are_of_everything(
    supervisor: Supervisor, error: Exception
) -> None:
    supervisor.fail(error)

    with pytest.raises(TargetError):
        RUNS.start("handle", "workflow__1", {})


@pytest.mark.parametrize(
    ("error", "meaning"),
    [
        (unwrapped(404, "not_found"), TargetError),
        (unwrapped(400, "value_error"), RunRejected),
        (unwrapped(500), ServerFault),
    ],
)
def test_in_a_dag_test_the_same_answers_mean_the_same(
    supervisor: Supervisor, error: Exception, meaning: type[Exception]
) -> None:
    supervisor.fail(error)

    with pytest.raises(meaning):
        RUNS.start("handle", "workflow__1", {})


def test_an_error_that_airflow_returns_instead_of_raising_is_of_everything(supervisor: Supervisor) -> None:
    supervisor.fail(ErrorResponse(error=ErrorType.GENERIC_ERROR))

    with pytest.raises(TargetError, match="handle"):
        RUNS.start("handle", "workflow__1", {})


def test_an_error_text_says_that_no_message_is_lost_and_what_to_do(supervisor: Supervisor) -> None:
    with pytest.raises(TargetError, match=r"'missing' was not found\. Deploy it, .*no message is lost"):
        RUNS.start("missing", "workflow__1", {})


def test_a_check_asks_for_the_dag_and_nothing_else(supervisor: Supervisor) -> None:
    ti = TaskInstance(supervisor=supervisor)
    TaskRuns(ti).check_target("handle")

    assert (ti.dags_asked, supervisor.asked) == (["handle"], [])
    with pytest.raises(TargetError):
        TaskRuns(ti).check_target("missing")


def test_a_run_with_the_id_of_a_message_that_names_another_one_rejects_it(supervisor: Supervisor) -> None:
    ti = TaskInstance(supervisor=supervisor)
    names = {"connection_id": "c", "inbox_id": "i"}
    supervisor.runs["handle", "workflow__1"] = {**names, "message": {"id": "other"}}

    with pytest.raises(MessageFault, match="a user or another message started it"):
        TaskRuns(ti).start("handle", "workflow__1", {**names, "message": {"id": "1"}})
    assert not TaskRuns(ti).find("handle", "workflow__1", {**names, "message_id": "1"})
    assert TaskRuns(ti).find("handle", "workflow__1", {**names, "message_id": "other"})


@pytest.mark.parametrize("stored", [None, {"inbox_id": "another", "message": {"id": "1"}}])
def test_a_run_without_a_conf_or_of_another_inbox_is_not_that_of_a_message(
    supervisor: Supervisor, stored: Any
) -> None:
    supervisor.runs["handle", "workflow__1"] = stored

    text = "the run workflow__1 of the DAG 'handle' exists"
    with pytest.raises(MessageFault, match=text):
        TaskRuns(TaskInstance(supervisor=supervisor)).start(
            "handle", "workflow__1", {"inbox_id": "i", "message": {"id": "1"}}
        )


@pytest.mark.since(3, 3, "a type of its own for runs that tasks start,")
def test_a_run_that_a_user_started_counts_only_with_the_whole_message(supervisor: Supervisor) -> None:
    runs = TaskRuns(TaskInstance(supervisor=supervisor))
    conf = {"connection_id": "c", "inbox_id": "i", "message": {"id": "1", "payload": {"n": 1}}}
    supervisor.runs["handle", "workflow__1"] = conf
    supervisor.users["handle", "workflow__1"] = "somebody"

    assert runs.start("handle", "workflow__1", conf) is Start.EXISTING
    with pytest.raises(MessageFault):
        runs.start("handle", "workflow__1", {**conf, "message": {"id": "1", "payload": {"n": 2}}})
    assert not runs.find("handle", "workflow__1", {**conf, "message": {"id": "1"}})


def test_a_run_of_a_listener_that_a_user_started_is_found_when_its_message_is_redelivered(
    supervisor: Supervisor,
) -> None:
    """Airflow gives it the name of that user."""
    runs, key = TaskRuns(TaskInstance(supervisor=supervisor)), ("handle", "workflow__1")
    names = {"connection_id": "c", "inbox_id": "i"}
    supervisor.runs[key] = {**names, "message": {"id": "1", "message_attributes": {"lease_count": 1}}}
    supervisor.users[key] = "somebody"
    supervisor.by_tasks.add(key)
    redelivered = {"id": "1", "message_attributes": {"lease_count": 2}}

    assert runs.start(*key, {**names, "message": redelivered}) is Start.EXISTING
    assert runs.find(*key, {**names, "message_id": "1"}) is Start.EXISTING


CARD = "4111 1111 1111 1111"


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        (f"Invalid input for param card: '{CARD}' is too long\n\nOn instance:\n '{CARD}'", ": param card"),
        ("Invalid input for param card: No value passed and Param is required", ": param card"),
        (f"Something about '{CARD}'", ""),
        (f"{CARD}", ""),
        (None, ""),
    ],
)
def test_a_reason_names_the_param_and_nothing_else_of_the_sentence(said: str | None, shown: str) -> None:
    assert param_of(said) == shown


def test_queued_and_running_runs_are_unfinished() -> None:
    ti = TaskInstance(unfinished=lambda dag_id: 7)

    assert TaskRuns(ti).unfinished("handle") == 7
    assert ti.counted == [("handle", ("queued", "running"))]


def test_an_answer_that_cannot_be_decoded_is_of_airflow(supervisor: Supervisor) -> None:
    try:
        OKResponse.model_validate({"ok": {}})
    except ValidationError as error:
        supervisor.fail(error)

    with pytest.raises(TargetError, match="cannot be read"):
        RUNS.start("handle", "workflow__1", {})


UUID = "0b6c2c8e-7f3a-4a52-9d0b-1f1e3c8a9b10"


INBOX = "6f1c0e7a-0d52-4b8e-a7c1-2f8b5f1f0c11"


def digest(message_id: str) -> str:
    """The hash of a message of the inbox: over the length of the inbox id, that id, and the message id."""
    return hashlib.sha256(f"{len(INBOX)}:{INBOX}{message_id}".encode()).hexdigest()


def test_a_run_id_names_the_message_and_ends_with_a_hash_of_inbox_and_message() -> None:
    assert runs.run_id_of(UUID, INBOX) == f"workflow__{UUID}__{digest(UUID)[:16]}"


def test_no_boundary_between_inbox_and_message_can_be_shifted() -> None:
    assert runs.run_id_of("b\0c d", "a") != runs.run_id_of("c d", "a\0b")
    assert runs.run_id_of("c d", "ab") != runs.run_id_of("bc d", "a")


@pytest.mark.parametrize("message_id", ["dead__m-1", "dead__", "dead__m-1__0123456789abcdef"])
def test_no_run_of_a_message_looks_like_a_dead_letter(message_id: str) -> None:
    run_id = runs.run_id_of(message_id, INBOX)

    assert run_id == f"workflow__{digest(message_id)}"
    assert run_id != runs.run_id_of(message_id.removeprefix("dead__"), INBOX, runs.DEAD_LETTER_PREFIX)


@pytest.mark.parametrize("message_id", [UUID, "a/b"])
def test_two_inboxes_that_share_a_message_id_share_no_run(message_id: str) -> None:
    assert runs.run_id_of(message_id, INBOX) != runs.run_id_of(message_id, "another")


@pytest.mark.parametrize("unsafe", ["a?b", "a%41b", "a/b", "a\n", "a..b", "", "\ud800"])
def test_an_id_that_an_address_would_change_is_hashed(unsafe: str) -> None:
    run_id = runs.run_id_of(unsafe, INBOX)

    assert len(run_id) == len("workflow__") + 64
    assert runs.run_id_of(unsafe, INBOX) == run_id
    assert unsafe == "" or unsafe not in run_id


def test_two_unsafe_ids_get_two_run_ids() -> None:
    assert len({runs.run_id_of(text, INBOX) for text in ("a?b", "a?c", "a#b", "a\n", "a")}) == 5


def test_the_longest_id_that_fits_is_kept_and_a_longer_one_is_hashed() -> None:
    longest = "x" * 222

    assert runs.run_id_of(longest, INBOX) == f"workflow__{longest}__{digest(longest)[:16]}"
    assert runs.run_id_of(longest + "x", INBOX) == f"workflow__{digest(longest + 'x')}"


IMAGE = "![x](http://tracker.example/x.png)"
HOSTILE = [
    IMAGE,
    f"`{IMAGE}`",
    f"``` {IMAGE}",
    IMAGE + "\ue000" * 500,  # longer than a note once it is escaped
    "`" * 500 + IMAGE,
    "https://tracker.example <b> **a** [a](b)",
    "a\n\n# b\r\n| - |",
]
FIXED = re.compile(r"[A-Za-z0-9 ,:_-]*")


def is_harmless(note: str | None) -> bool:
    """Whether a note has Markdown of ours alone: code, each piece of it complete, between plain words."""
    pieces = str(note).split("`")
    return len(pieces) % 2 == 1 and len(str(note)) < LONGEST_NOTE and all(map(FIXED.fullmatch, pieces[::2]))


@pytest.fixture
def named(bench: Workbench) -> Workbench:
    """The workbench, for a task of a run with a hostile id."""
    bench.ti.run_id = IMAGE * 7  # type: ignore[attr-defined]
    return bench


def rejects_bad_payloads(order: TriggerDagRun) -> Fault | None:
    is_bad = order.dag_id == "handle" and order.conf is not None and order.conf["message"]["payload"] == "bad"
    return REJECTED if is_bad else None


@pytest.mark.parametrize("hostile", HOSTILE)
def test_an_operator_starts_runs_and_dead_letters_with_harmless_notes(named: Workbench, hostile: str) -> None:
    inbox = hostile[:NAME_LENGTH]
    named.service.open_inbox(inbox)
    named.service.put(inbox, "good", "bad", ids=[hostile, f"{hostile}?"])
    named.supervisor.dags.add("dead")
    named.supervisor.faults.append(rejects_bad_payloads)

    given: Any = {"trigger_dag_id": "handle", "dead_letter_dag_id": "dead", "dead_letter_after": 1}
    WorkflowInboxDispatchOperator(task_id="t", inbox=inbox, **given).execute({"ti": named.ti})

    notes = {order.dag_id: order.note for order in named.supervisor.asked}
    assert {dag_id: is_harmless(note) for dag_id, note in notes.items()} == {"handle": True, "dead": True}


@pytest.mark.parametrize("hostile", HOSTILE)
def test_so_does_a_sensor_that_its_trigger_resumes(named: Workbench, hostile: str) -> None:
    task = Task(named)
    deferral = task.execute()
    named.put(hostile)
    task.resume(deferral, task.leased())

    assert [is_harmless(order.note) for order in named.supervisor.asked] == [True]


@pytest.mark.parametrize("hostile", HOSTILE)
def test_so_does_an_operator_that_replays(named: Workbench, hostile: str) -> None:
    message: Any = {"id": hostile, "payload": 1, "message_attributes": {"lease_count": 3}}
    conf = conf_of(message, named.hook.workflow_conn_id, hostile, "handle", Reason.REJECTED, "a cause")
    operator = WorkflowDeadLetterReplayOperator(task_id="t", conf=dict(conf))
    operator.execute({"ti": named.ti, "dag_run": SimpleNamespace(conf=None)})

    assert [is_harmless(order.note) for order in named.supervisor.asked] == [True]


@pytest.mark.parametrize("message_id", ["a", "workflow__m-1", "\u65e5\u672c"])
def test_what_is_quoted_stays_readable(named: Workbench, message_id: str) -> None:
    named.ti.run_id = "manual__2026-01-01"  # type: ignore[attr-defined]
    named.put(message_id)
    WorkflowInboxDispatchOperator(task_id="t", inbox="orders", trigger_dag_id="handle").execute(
        {"ti": named.ti}
    )

    [order] = named.supervisor.asked
    started_by = "started by the run `manual__2026-01-01` of `listener`"
    assert order.note == f"Message `{message_id}` of the inbox `orders`, {started_by}"


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


def test_only_the_first_100_ids_are_kept_and_all_are_counted() -> None:
    counts = Counts()
    for number in range(250):
        counts.count("started", str(number))

    assert counts.result["started"]["count"] == 250
    assert counts.result["started"]["ids"] == [str(number) for number in range(100)]


def test_a_rejected_message_counts_by_its_last_outcome() -> None:
    counts = Counts()
    counts.reject("a", "too deep")
    counts.reject("a", "too deep")
    assert counts.result["rejected"] == {"count": 1, "ids": ["a"]}

    after = Counts.carried(json.loads(json.dumps(counts.carry())))
    after.count("dead_lettered", "a")

    assert after.handled == after.result["dead_lettered"]["count"] == 1
    assert not after.causes


def test_causes_of_refusals_cross_a_deferral() -> None:
    before = Counts()
    before.reject("a", "too deep")
    after = Counts.carried(json.loads(json.dumps(before.carry())))

    assert after.rejected_text() == before.rejected_text()
    assert after.rejected_text() == "1 messages were rejected and not acknowledged: a: too deep"


def test_the_text_names_ten_causes_and_the_number_of_all() -> None:
    counts = Counts()
    for number in range(150):
        counts.reject(f"m{number}", "cause")

    assert counts.rejected_text().startswith("150 messages were rejected")
    assert counts.rejected_text().count("cause") == 10
    assert len(counts.causes) == 100


def test_whatever_a_cause_quotes_it_can_cross_and_is_short() -> None:
    counts = Counts()
    counts.reject("a\0\ud800", "quotes \0 \ud800 and " + "x" * 10_000_000)

    assert len(msgspec.msgpack.encode(counts.carry())) < 1000
    assert "\0" not in counts.rejected_text()
    assert counts.rejected_text().isprintable()


def test_two_tallies_share_nothing() -> None:
    Counts().count("started", "a")

    assert Counts().handled == 0
