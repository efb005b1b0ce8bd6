"""``@task.workflow_inbox``: batches of messages, and what a kill leaves."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import datetime
from functools import partial
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowException
from airflow.sdk import DAG, TaskGroup, exceptions, task
from airflow.sdk.definitions.param import ParamsDict

from airflow_provider_workflow.decorators.workflow_inbox import MessagesFailed, WorkflowInboxDecoratedOperator
from airflow_provider_workflow.dispatch.batch_outcomes import BatchError
from airflow_provider_workflow.dispatch.holding import TaskKilled
from airflow_provider_workflow.emulator.clock import ManualClock
from airflow_provider_workflow.hooks.workflow import WorkflowHook
from tests.unit.workbench import INBOX, Workbench

START = datetime(2025, 1, 1)


def of_orders(function: Callable[..., Any]) -> Any:
    """A decorated function that works on the messages of the inbox."""
    return task.workflow_inbox(inbox=INBOX)(function)


def nothing(messages: list[Any]) -> None:
    pass


def operator_of(decorated: Any, *args: Any, **kwargs: Any) -> WorkflowInboxDecoratedOperator:
    """The operator of a decorated function that a DAG file calls with these arguments."""
    with DAG("batches", schedule=None, start_date=START):
        operator: WorkflowInboxDecoratedOperator = decorated(*args, **kwargs).operator
    return operator


def execute(bench: Workbench, decorated: Any, *args: Any, **kwargs: Any) -> Any:
    return operator_of(decorated, *args, **kwargs).execute(bench.context)  # type: ignore[arg-type]


def test_messages_cannot_be_given_in_the_dag_file() -> None:
    with pytest.raises(ValueError, match=r"^messages cannot be given"):
        operator_of(of_orders(nothing), messages=[])
    with pytest.raises(TypeError, match="messages"):
        operator_of(of_orders(nothing), [])


def test_the_function_is_called_with_batches_its_own_arguments_and_the_context(bench: Workbench) -> None:
    calls: list[Any] = []

    @task.workflow_inbox(inbox=INBOX, batch_size=2)
    def work(limit: int, messages: Any, *, ti: Any = None, unit: str = "EUR", **context: Any) -> str:
        ids = [message["id"] for message in messages]
        calls.append((limit, ids, ti is bench.ti, unit, set(context)))
        return "ignored"

    bench.put("a", "b", "c")
    result = execute(bench, work, 5, unit="USD")

    other_arguments = (True, "USD", {"task_state_store"})
    assert calls == [(5, ["a"], *other_arguments), (5, ["b", "c"], *other_arguments)]
    assert (result["batches"], result["processed"]["count"]) == (2, 3)
    assert bench.states == {}


def test_an_argument_that_is_missing_is_named_when_the_dag_is_parsed() -> None:
    def work(messages: Any, limit: int) -> None:
        pass

    with pytest.raises(TypeError, match="limit"):
        operator_of(of_orders(work))
    with pytest.raises(TypeError, match="inbox"):
        operator_of(task.workflow_inbox(nothing))


@pytest.mark.parametrize("work", [lambda message: None, lambda: None, lambda *batch: None])
def test_a_function_without_the_parameter_messages_is_an_error_that_names_it(work: Any) -> None:
    with pytest.raises(TypeError, match=r"^The function <lambda> of @task.workflow_inbox .* named messages"):
        operator_of(of_orders(work))


def test_a_mapped_copied_or_grouped_task_works_on_messages_as_well(bench: Workbench) -> None:
    calls: list[Any] = []

    @of_orders
    def work(messages: Any, limit: int, factor: int = 1) -> None:
        calls.append((len(messages), limit, factor))

    with DAG("mapped", schedule=None, start_date=START) as dag:
        mapped_operator = work.partial(factor=2).expand(limit=[3, 4]).operator
        with TaskGroup("intake"):
            of_orders(nothing)()
    bench.put("a")
    mapped_operator.unmap({"op_kwargs": {"limit": 3, "factor": 2}}).execute(bench.context)
    bench.put("b")
    copy.deepcopy(operator_of(work, limit=5)).execute(bench.context)  # type: ignore[arg-type]

    assert calls == [(1, 3, 2), (1, 5, 1)]
    assert dag.task_ids == ["work", "intake.nothing"]


def test_what_a_template_may_hold_is_rendered_to_strings() -> None:
    native = DAG("native", schedule=None, start_date=START, render_template_as_native_obj=True)
    templates = dict.fromkeys(("inbox", "workflow_conn_id", "dead_letter_dag_id"), "{{ params.inbox }}")

    def work(messages: Any, limit: int) -> None:
        pass

    with native:
        operator = task.workflow_inbox(**templates)(work)(limit="{{ params.limit }}").operator
    params = ParamsDict({"inbox": "20260101", "limit": 5})
    operator.render_template_fields({"params": params, "task": operator})
    assert {str(getattr(operator, name)) for name in templates} == {"20260101"}
    assert operator.op_kwargs["limit"] == 5


def test_an_overridden_task_has_its_own_inbox_and_retries_that_are_given() -> None:
    overridden: Any = operator_of(
        of_orders(nothing).override(task_id="other", inbox="invoices", batch_size=5)
    )
    assert (overridden.task_id, overridden.inbox, overridden.limits.lease_limit) == ("other", "invoices", 5)

    of_itself = operator_of(of_orders(nothing))
    assert (of_itself.retries, of_itself.retry_delay.total_seconds()) == (5, 10)
    assert of_itself.retry_exponential_backoff
    assert operator_of(task.workflow_inbox(inbox=INBOX, retries=0)(nothing)).retries == 0


def test_the_page_of_a_task_shows_the_function_and_its_name() -> None:
    operator = operator_of(of_orders(nothing))
    assert operator.custom_operator_name == "@task.workflow_inbox"
    assert operator.get_python_source().startswith("def nothing(messages")


async def coroutine(messages: Any) -> None:
    pass


async def async_generator(messages: Any) -> AsyncIterator[None]:
    yield


def generator(messages: Any) -> Iterator[None]:
    yield


@pytest.mark.parametrize("function", [coroutine, async_generator, generator, partial(coroutine)])
def test_a_function_that_would_process_nothing_fails_when_the_dag_is_parsed(function: Any) -> None:
    with pytest.raises(ValueError, match=r"(coroutine|generator).* of @task.workflow_inbox must not be a"):
        WorkflowInboxDecoratedOperator(task_id="work", python_callable=function, inbox=INBOX)


@pytest.mark.parametrize("value", [map(print, ["a"]), filter(print, ["a"]), (n for n in "a")], ids=type)
def test_a_function_that_returns_what_has_not_run_acknowledges_nothing(bench: Workbench, value: Any) -> None:
    @of_orders
    def work(messages: Any) -> Any:
        return value

    bench.put("a")
    with pytest.raises(TypeError, match=f"returned a {type(value).__name__}, which has not run"):
        execute(bench, work)
    assert bench.states == {"a": "leased"}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("inbox", ""),
        ("batch_size", 101),
        ("lease_seconds", 59),
        ("max_messages", 0),
        ("dead_letter_after", 5),
        ("dead_letter_dag_id", " "),
        ("workflow_conn_id", ""),
    ],
)
def test_a_wrong_argument_is_named_when_the_dag_is_parsed(field: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"^{field}"):
        operator_of(task.workflow_inbox(**{"inbox": INBOX, field: value})(nothing))


def test_a_message_that_fails_on_its_third_delivery_starts_the_dead_letter_dag(bench: Workbench) -> None:
    @task.workflow_inbox(inbox=INBOX, dead_letter_dag_id="dead")
    def work(messages: Any) -> None:
        raise MessagesFailed([messages.pop()["id"]])

    bench.supervisor.dags.add("dead")
    bench.put("a", lease_count=2)
    result = execute(bench, work)

    assert result["dead_lettered"]["ids"] == ["a"]
    assert bench.dead_letters["a"]["reason"] == "failed"


def test_an_unknown_id_is_an_error_and_nothing_of_the_batch_is_acknowledged(bench: Workbench) -> None:
    @of_orders
    def work(messages: Any) -> None:
        if len(messages) > 1:
            raise MessagesFailed(["y", "x\n", "b"])

    bench.put("first", "b", "c")
    text = rf"^Inbox {INBOX}: MessagesFailed names 2 ids that are not in the batch, such as x\\n"
    with pytest.raises(BatchError, match=text):
        execute(bench, work)
    assert bench.states == {"b": "available", "c": "available"}


@pytest.mark.parametrize(
    "name",
    [
        *("AirflowSkipException", "AirflowRescheduleException", "TaskDeferred"),
        *("DagRunTriggerException", "DownstreamTasksSkipped"),
        pytest.param("TaskAwaitingInput", marks=pytest.mark.since(3, 3, "what some modules import")),
    ],
)
def test_what_ends_a_task_without_an_error_is_a_failure_of_the_function(bench: Workbench, name: str) -> None:
    error = getattr(exceptions, name)

    @of_orders
    def work(messages: Any) -> None:
        if len(messages) > 1:
            raise error.__new__(error)

    bench.put("a", "b", "c")
    text = f"^Inbox {INBOX}: the function raised {name}, with which the task"
    with pytest.raises(BatchError, match=text):
        execute(bench, work)
    assert bench.states == {"b": "available", "c": "available"}


@pytest.mark.parametrize("ids", ["a", {}, [1], None])
def test_failed_messages_need_ids(ids: Any) -> None:
    with pytest.raises(ValueError, match=r"^ids must"):
        MessagesFailed(ids)


def test_failed_messages_are_counted_in_their_text() -> None:
    texts = [str(MessagesFailed(iter(ids))) for ids in ("a", "ab")]
    assert texts == ["1 message failed", "2 messages failed"]


def test_a_task_that_is_being_ended_releases_the_batch_that_it_works_on(bench: Workbench) -> None:
    operators: list[WorkflowInboxDecoratedOperator] = []

    @of_orders
    def work(messages: Any) -> None:
        operators[0].on_kill()

    operators.append(operator_of(work))
    bench.put("a")
    with pytest.raises(TaskKilled):
        operators[0].execute(bench.context)  # type: ignore[arg-type]
    assert bench.states == {"a": "available"}


def test_a_task_that_is_ended_before_it_has_worked_leases_nothing(bench: Workbench) -> None:
    killed_operator, operator = operator_of(of_orders(nothing)), operator_of(of_orders(nothing))
    killed_operator.on_kill()
    bench.put("a")
    with pytest.raises(TaskKilled):
        killed_operator.execute(bench.context)  # type: ignore[arg-type]
    assert bench.states == {"a": "available"}

    operator.execute(bench.context)  # type: ignore[arg-type]
    operator.on_kill()
    assert bench.states == {}


IDS = [f"m{number:02}" for number in range(40)]


class Killed(BaseException):
    """The process is gone: from now on none of its calls has an effect."""


def calls_of_a_try(bench: Workbench, killer: str, dead_letter_dag_id: str | None) -> list[list[str]]:
    """Let a try of the task work in a process that one message kills; the calls of the function."""
    calls: list[list[str]] = []

    with pytest.MonkeyPatch.context() as process:

        def no_longer(*_: Any) -> None:
            raise Killed

        @task.workflow_inbox(inbox=INBOX, dead_letter_dag_id=dead_letter_dag_id)
        def work(messages: Any) -> None:
            calls.append([message["id"] for message in messages])
            if killer in calls[-1]:
                process.setattr(WorkflowHook, "for_shutdown", no_longer)
                raise Killed

        operator: Any = operator_of(work)
        with contextlib.suppress(Killed, AirflowException):
            operator.execute(bench.context)
    return calls


@pytest.mark.slow
@pytest.mark.parametrize("position", [0, 20])
@pytest.mark.parametrize("dead_letter_dag_id", [None, "dead"])
def test_a_message_that_kills_its_process_takes_no_other_with_it(
    bench: Workbench, clock: ManualClock, position: int, dead_letter_dag_id: str | None
) -> None:
    bench.supervisor.dags.add("dead")
    bench.put(*IDS)
    killer, called_ids = IDS[position], set()
    for _ in range(6):
        for attempt in (1, 2, 3):
            bench.ti.try_number = attempt
            for ids in calls_of_a_try(bench, killer, dead_letter_dag_id):
                called_ids.update(ids)
        clock.advance(3600)

    assert called_ids == set(IDS)
    assert bench.states == ({} if dead_letter_dag_id else {killer: "quarantined"})
    assert set(bench.dead_letters) == ({killer} if dead_letter_dag_id else set())
