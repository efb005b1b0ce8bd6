"""Callbacks of tasks: called once for dead letters and for quarantined messages, and they fail nothing."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
from collections.abc import Callable
from typing import Any
from weakref import ref

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException, TaskDeferred
from airflow.providers.smtp.notifications.smtp import SmtpNotifier
from airflow.sdk import DAG
from airflow.sdk.execution_time.comms import TriggerDagRun

from airflow_provider_workflow.client.errors import AuthenticationError
from airflow_provider_workflow.dispatch.rejections import TargetError
from airflow_provider_workflow.emulator.clock import ManualClock
from airflow_provider_workflow.operators.inbox import WorkflowInboxDispatchOperator
from tests.unit import alerting
from tests.unit.alarms import alarms, another_process, crash, variables
from tests.unit.alerting import Notifier
from tests.unit.fake_clock import FakeClock, nothing
from tests.unit.fakes import api_error
from tests.unit.sensors.tasks import POLL, Task
from tests.unit.triggers.day import Over
from tests.unit.triggers.loops import fire
from tests.unit.workbench import INBOX, TaskTimeout, Workbench

__all__ = ["variables"]

pytestmark = pytest.mark.usefixtures("variables")
REJECTED = api_error(400, "value_error", "Invalid input for param message: 'a secret' is too long")
Context = dict[str, Any]


@pytest.fixture(autouse=True)
def _nothing_called() -> None:
    alerting.calls.clear()


def operator(**arguments: Any) -> WorkflowInboxDispatchOperator:
    given = {"trigger_dag_id": "handle", "dead_letter_dag_id": "dead", **arguments}
    return WorkflowInboxDispatchOperator(task_id="t", inbox=INBOX, **given)


def dispatch(bench: Workbench, **arguments: Any) -> Any:
    bench.supervisor.dags.add("dead")
    return operator(**arguments).execute({"ti": bench.ti, "dag_run": "this run"})


def put_dead_letters(bench: Workbench, *ids: str, between: str = "") -> None:
    """Messages that are rejected on their third delivery, after a good one and before as many good ones."""
    for each in ids:
        bench.supervisor.refuse(each, REJECTED)
    bench.put(f"before {ids[0]}")
    bench.put(*ids, lease_count=2, payload="a secret")
    bench.put(*filter(None, [between]), *(f"after {each}" for each in ids))


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    texts = [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]
    return [each for each in texts if "on_" in each]


def test_dead_letters_are_told_once_with_their_causes_and_without_their_payloads(bench: Workbench) -> None:
    told: list[Context] = []
    put_dead_letters(bench, "bad1", "bad2")
    dispatch(bench, on_dead_letter=told.append)

    [context] = told
    assert context["dag_run"] == "this run"
    alert = context["workflow"]
    created = {each["message_id"]: each["created_at"] for each in bench.dead_letters.values()}
    runs = {conf["message_id"]: run for (dag, run), conf in bench.supervisor.runs.items() if dag == "dead"}
    assert alert == {
        "event": "dead_letter",
        "inbox": INBOX,
        "inbox_id": bench.inbox_id,
        "conn_id": "workflow_default",
        "count": 2,
        "messages": [
            {
                "id": each,
                "created_at": created[each],
                "delivery_count": 3,
                "reason": "rejected",
                "cause": "value_error (status 400): param message",
                "run_id": runs[each],
            }
            for each in ("bad1", "bad2")
        ],
        "dead_letter_dag_id": "dead",
    }
    assert "a secret" not in json.dumps(alert)


def test_it_is_told_when_everything_is_acknowledged_and_nothing_is_leased(bench: Workbench) -> None:
    states: list[dict[str, str]] = []
    put_dead_letters(bench, "bad")
    dispatch(bench, on_dead_letter=lambda _: states.append(bench.states))

    assert states == [{}]


def test_nothing_is_told_of_a_dead_letter_whose_run_is_found(bench: Workbench) -> None:
    told: list[Context] = []
    put_dead_letters(bench, "bad")

    # The first lease of a task is one message: that it cannot be acknowledged would end the task.
    def fail_acknowledgement(run: TriggerDagRun) -> None:
        if run.dag_id == "dead":
            bench.service.fault("status", operation="ack", status=403, times=None)

    bench.supervisor.faults.insert(0, fail_acknowledgement)
    with pytest.raises(AuthenticationError):
        dispatch(bench, on_dead_letter=told.append)
    bench.supervisor.faults.pop(0)
    bench.service.emulator.faults.clear()
    assert len(told) == 1
    bench.service.store.leases.expire()
    dispatch(bench, on_dead_letter=told.append)

    assert bench.states == {}
    assert len(told) == 1


def test_a_drain_without_dead_letters_calls_nothing(bench: Workbench) -> None:
    told: list[Context] = []
    bench.put("a")
    dispatch(bench, on_dead_letter=told.append, on_quarantined=told.append)

    assert told == []


def test_an_alert_lists_the_first_100_messages_and_counts_all(bench: Workbench) -> None:
    told: list[Context] = []
    put_dead_letters(bench, *(f"bad{number:03}" for number in range(10)))
    bench.put(*(f"x{number}" for number in range(120)), lease_count=2, payload={"list": 1})
    targets = {"handle": "length(payload.list) > `1`"}
    bench.supervisor.faults.clear()
    dispatch(bench, trigger_dag_id=targets, on_dead_letter=told.append)

    [context] = told
    assert context["workflow"]["count"] > 100
    assert len(context["workflow"]["messages"]) == 100


def test_a_notifier_renders_its_template_with_the_context_of_the_task_each_time(bench: Workbench) -> None:
    notifier = Notifier("{{ dag_run }}: {{ workflow.messages | map(attribute='id') | join(', ') }}")
    task = operator(on_dead_letter=[notifier, alerting.record])
    bench.supervisor.dags.add("dead")
    for name in ("bad1", "bad2"):
        put_dead_letters(bench, name)
        task.execute({"ti": bench.ti, "dag_run": "this run"})  # type: ignore[typeddict-item,typeddict-unknown-key]

    assert alerting.calls[::2] == ["this run: bad1", "this run: bad2"]
    assert [each["workflow"]["count"] for each in alerting.calls[1::2]] == [1, 1]


def test_airflows_own_notifier_of_mail_is_one(bench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[str] = []
    notify = "airflow.providers.smtp.notifications.smtp.SmtpNotifier.notify"
    monkeypatch.setattr(notify, lambda self, context: sent.append(f"{self.to} {self.subject}"))
    put_dead_letters(bench, "bad")
    subject = "{{ workflow.count }} dead letters of {{ workflow.inbox }}"
    mail = SmtpNotifier(to="on-call@example.com", subject=subject, html_content="-")
    dispatch(bench, on_dead_letter=mail)

    assert sent == ["on-call@example.com 1 dead letters of orders"]


def test_a_callback_that_fails_is_one_line_and_the_others_are_called(
    bench: Workbench, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[Context] = []
    put_dead_letters(bench, "bad")
    result = dispatch(bench, on_dead_letter=[alerting.fails, told.append])

    assert result["dead_lettered"]["count"] == 1
    assert bench.states == {}
    assert warnings(caplog) == ["Inbox orders: a callback of on_dead_letter failed: RuntimeError"]
    assert "a secret" not in caplog.text
    assert len(told) == 1


def test_what_one_callback_does_to_its_context_the_next_does_not_see(bench: Workbench) -> None:
    told: list[Context] = []
    put_dead_letters(bench, "bad")
    dispatch(bench, on_dead_letter=[lambda context: context.clear(), told.append])

    assert "workflow" in told[0]


@pytest.mark.parametrize(("error", "calls"), [(lambda: api_error(409, "import_errors"), 1), (TaskTimeout, 0)])
def test_it_is_told_although_the_task_fails_but_not_while_it_is_ended(
    bench: Workbench, caplog: pytest.LogCaptureFixture, error: Callable[[], Any], calls: int
) -> None:
    told: list[Context] = []
    put_dead_letters(bench, "bad", between="last")
    raised = error()

    def fail(asked: Any) -> Any:
        if not asked.run_id.startswith("workflow__last"):
            return None
        if isinstance(raised, TaskTimeout):
            raise raised
        return raised

    bench.supervisor.faults.append(fail)
    with pytest.raises((TargetError, TaskTimeout)):
        # What is rejected is decided about at the end of its lease.
        dispatch(bench, on_dead_letter=told.append, lease_limit=1)

    assert len(told) == calls
    ended = "Inbox orders: on_dead_letter is not called for 1 messages, as the task is being ended"
    assert warnings(caplog) == ([] if calls else [ended])


def test_a_quarantined_message_is_told_once_by_all_processes(bench: Workbench, clock: ManualClock) -> None:
    told: list[Context] = []
    crash(bench, clock, "a", "b")
    for _ in range(2):
        another_process()
        dispatch(bench, on_quarantined=told.append)

    [context] = told
    alert = context["workflow"]
    assert (alert["event"], alert["inbox"], alert["inbox_id"]) == ("quarantined", INBOX, bench.inbox_id)
    assert [each["id"] for each in alert["messages"]] == ["a", "b"]
    assert alert["messages"][0]["created_at"]
    assert alert["messages"][0]["delivery_count"] == 5
    assert alert["messages"][0]["run_id"] is None


def test_a_task_that_has_ended_is_not_remembered(bench: Workbench) -> None:
    task = operator(on_quarantined=print)
    bench.supervisor.dags.add("dead")
    task.execute({"ti": bench.ti})
    hook = ref(task.hook)
    del task
    gc.collect()

    assert hook() is None


@pytest.mark.parametrize("arguments", [{}, {"trigger_dag_id": None, "acknowledge": "manual"}])
def test_a_sensor_tells_of_quarantined_messages_in_both_of_its_uses(
    bench: Workbench, clock: ManualClock, arguments: Any
) -> None:
    told: list[Context] = []
    crash(bench, clock, "a")
    task = Task(bench, on_quarantined=told.append, **arguments)

    assert isinstance(task.execute(), TaskDeferred)
    assert [each["workflow"]["count"] for each in told] == [1]


def test_a_sensor_tells_of_dead_letters_before_it_fails(bench: Workbench) -> None:
    told: list[Context] = []
    bench.supervisor.dags.add("dead")
    put_dead_letters(bench, "bad")
    bench.supervisor.refuse("dead__bad2", api_error(400, "import_errors"))
    bench.supervisor.refuse("bad2", REJECTED)
    bench.put("bad2", lease_count=2)
    bench.put("good3")
    task = Task(bench, deferrable=False, dead_letter_dag_id="dead", on_dead_letter=told.append)
    with pytest.raises(AirflowFailException):
        task.execute()

    assert [[each["id"] for each in told[0]["workflow"]["messages"]]] == [["bad"]]


async def test_the_trigger_of_a_sensor_leaves_the_report_to_its_task(
    bench: Workbench, clock: ManualClock, fake_clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[Context] = []
    task = Task(bench, on_quarantined=told.append, wake_on_events=False)
    deferral = task.execute()
    crash(bench, clock, "a")
    another_process()
    fake_clock.then(*[nothing] * 20, over)
    assert await fire(deferral.trigger) == POLL
    assert alarms(caplog) == []

    another_process()
    again = await asyncio.to_thread(task.resume, deferral, POLL)
    assert len(alarms(caplog)) == 1
    assert [each["workflow"]["messages"][0]["id"] for each in told] == ["a"]

    another_process()
    fake_clock.then(*[nothing] * 20, over)
    with pytest.raises(Over):
        await fire(again.trigger)


def over() -> None:
    raise Over


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (
            {"on_dead_letter": 1},
            "on_dead_letter must be a function, a notifier, or a list of these, not a int",
        ),
        ({"on_quarantined": [print, None]}, "on_quarantined must be a function, .* not a NoneType"),
        ({"on_quarantined": Notifier}, "on_quarantined must be an instance of the notifier Notifier"),
        ({"on_quarantined": alerting.coroutine}, "on_quarantined cannot be the async function coroutine"),
        ({"on_dead_letter": print, "dead_letter_dag_id": None}, "on_dead_letter needs dead_letter_dag_id"),
    ],
)
def test_a_wrong_callback_is_named_when_the_dag_is_parsed(arguments: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        operator(**arguments)


@pytest.mark.parametrize("mapped", [True, False])
def test_a_dag_with_callbacks_can_be_stored(mapped: bool) -> None:
    from airflow.serialization import serialized_objects

    serialization = serialized_objects.DagSerialization
    callbacks: dict[str, Any] = {
        "on_dead_letter": Notifier(),
        "on_quarantined": [alerting.record, Notifier()],
    }
    given = {"task_id": "t", "trigger_dag_id": "handle", "dead_letter_dag_id": "dead", **callbacks}
    with DAG("d", schedule=None) as dag:
        if mapped:
            WorkflowInboxDispatchOperator.partial(**given).expand(inbox=["a", "b"])
        else:
            WorkflowInboxDispatchOperator(inbox="a", **given)

    json.dumps(serialization.to_dict(dag))
