"""
``@task.workflow_inbox``: a task whose function is called with the messages of an inbox, batch by batch::

    from airflow.sdk import task


    @task.workflow_inbox(inbox="orders", batch_size=100)
    def store(messages):
        insert([message["payload"] for message in messages])
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import (
    DecoratedOperator,
    determine_kwargs,
    task_decorator_factory,
)

from airflow_provider_workflow.client.arguments import LEASE_LIMIT, require_int
from airflow_provider_workflow.limits import Limits
from airflow_provider_workflow.operators.base import (
    DispatchingOperator,
    ReleasesOnKill,
    WorkflowOperator,
)
from airflow_provider_workflow.options import check_dead_letters, check_string, rendered

if TYPE_CHECKING:
    from typing import Concatenate, ParamSpec, TypeVar, Unpack

    from airflow.sdk import Context

    from airflow_provider_workflow.airflow_internals import Task
    from airflow_provider_workflow.arguments import BatchArguments
    from airflow_provider_workflow.dispatch.batch_outcomes import BatchResult

    Others = ParamSpec("Others")
    Returned = TypeVar("Returned")

__all__ = ["MessagesFailed", "WorkflowInboxDecoratedOperator", "workflow_inbox_task"]

MESSAGES = "messages"
"""The parameter of the function for the messages."""
MAX_FAILURE_LENGTH = 300
LAZY = (inspect.iscoroutinefunction, inspect.isgeneratorfunction, inspect.isasyncgenfunction)
"""Whether a call of a function runs nothing of it."""
UNSTARTED = (Awaitable, Generator, AsyncGenerator, map, filter)
"""What such a call returns."""
WITHOUT_ERROR = (
    "AirflowRescheduleException",
    "AirflowSkipException",
    "DagRunTriggerException",
    "DownstreamTasksSkipped",
    "TaskAwaitingInput",
    "TaskDeferred",
)
"""Exceptions that end a task without an error; Airflow 3.2 may lack some."""


class MessagesFailed(Exception):
    """
    Raised by the function of ``@task.workflow_inbox``: some messages of the batch failed.

    The other messages of the batch are acknowledged, and the work goes on with the next batch.

    :param ids: ids of the failed messages, 1 or more; or a dictionary of these ids with the causes, which are
        written to logs and dead letters, so they must not contain payloads.
    """

    def __init__(self, ids: Iterable[str] | Mapping[str, str]) -> None:
        if not isinstance(ids, Mapping):
            are_many = isinstance(ids, Iterable) and not isinstance(ids, str)
            ids = dict.fromkeys(ids if are_many else (), "named in MessagesFailed")
        if not ids or not all(isinstance(message_id, str) for message_id in ids):
            raise ValueError(
                "ids must be a list of one or more message ids, or a dictionary of ids and causes; return"
                " from the function if no message failed"
            )
        self.causes = {message_id: str(cause) for message_id, cause in ids.items()}
        super().__init__(self.causes)

    def __str__(self) -> str:
        from airflow_provider_workflow.text import counted

        return f"{counted(len(self.causes), 'message')} failed"


class WorkflowInboxDecoratedOperator(ReleasesOnKill, DecoratedOperator, WorkflowOperator):
    """
    Leases messages, calls a function with them, and acknowledges them after it has returned; batch by batch,
    until the inbox is empty.

    Each message is processed at least once. Use it as ``@task.workflow_inbox`` on a function with the
    parameter ``messages``: a list of dictionaries with ``id``, ``created_at``, ``payload`` and
    ``message_attributes``. What the function returns is ignored; other parameters are given by keyword.

    By default it has 5 retries, with pauses that double from 10 s. Airflow ignores these defaults for mapped
    tasks: name ``retries`` there.

    :param inbox: id or name of the inbox (templated).
    :param batch_size: messages per call of the function at most, 1 to 100. The first call has one message,
        and the number grows from call to call.
    :param lease_seconds: length of a lease, 60 to 3600 s. All calls for a lease have 30 s less.
    :param max_messages: messages to lease at most, 1 or more; None until the inbox is empty.
    :param dead_letter_dag_id: DAG to start for a message that the function keeps failing for (templated); the
        message is then acknowledged. Without it such a message is quarantined in the end.
    :param dead_letter_after: delivery count from which a message that fails is a dead letter, 1 to 4.
    """

    template_fields: Sequence[str] = (
        "inbox",
        "dead_letter_dag_id",
        *WorkflowOperator.template_fields,
        *DecoratedOperator.template_fields,
    )
    custom_operator_name = "@task.workflow_inbox"
    RETRIES = DispatchingOperator.RETRIES

    def __init__(
        self,
        *,
        python_callable: Callable[..., Any],
        inbox: str,
        batch_size: int = 100,
        lease_seconds: int = 300,
        max_messages: int | None = None,
        dead_letter_dag_id: str | None = None,
        dead_letter_after: int = 3,
        op_kwargs: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        require_int("batch_size", batch_size, LEASE_LIMIT)
        check_dead_letters(dead_letter_dag_id, dead_letter_after, "lease", ())
        name = getattr(python_callable, "__name__", python_callable)
        if any(is_lazy(python_callable) for is_lazy in LAZY):
            raise ValueError(f"The function {name} of @task.workflow_inbox must not be async, nor yield")
        parameters = inspect.signature(python_callable).parameters
        takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
        if MESSAGES not in parameters and not takes_any:
            raise TypeError(
                f"The function {name} of @task.workflow_inbox needs a parameter named {MESSAGES}: the list of"
                " messages of a batch"
            )
        if MESSAGES in (op_kwargs or {}):
            raise ValueError(f"{MESSAGES} cannot be given: a task gets them from the inbox")
        # Airflow checks that the function can be called, and a batch brings the messages.
        op_kwargs = {**(op_kwargs or {}), MESSAGES: None}
        super().__init__(python_callable=python_callable, op_kwargs=op_kwargs, **kwargs)
        self.inbox = check_string("inbox", inbox)
        self.limits = Limits(batch_size, lease_seconds, max_messages, None)
        self.dead_letter_dag_id = dead_letter_dag_id
        self.dead_letter_after = dead_letter_after
        self._has_letters = dead_letter_dag_id is not None

    def execute(self, context: Context) -> BatchResult:
        """Process the messages of the inbox; see ``Batches.run`` for the errors."""
        from airflow_provider_workflow.dispatch.batches import Batches
        from airflow_provider_workflow.dispatch.dead_letters import DeadLetterRules
        from airflow_provider_workflow.dispatch.payload_store import PayloadStore
        from airflow_provider_workflow.dispatch.runs import TaskRuns

        self.inbox = rendered("inbox", self.inbox)
        ti, dag_id = context["ti"], self.dead_letter_dag_id
        letters = rendered("dead_letter_dag_id", dag_id, optional=not self._has_letters)
        self._worker = batches = Batches(
            self.hook,
            self.inbox,
            self._work(context),
            TaskRuns(ti),
            self.limits,
            attempt=ti.try_number,
            dead_letter_rules=DeadLetterRules(letters, self.dead_letter_after) if letters else None,
            store=PayloadStore.configured() if letters else None,
            task=self._task,
        )
        return batches.run()

    def _work(self, context: Context) -> Callable[[list[dict[str, Any]]], Mapping[str, str]]:
        """The function as a call with messages, which returns the failed ones with their causes."""
        from airflow.sdk import exceptions

        from airflow_provider_workflow.dispatch.batch_outcomes import BatchError
        from airflow_provider_workflow.inbox_names import name_of
        from airflow_provider_workflow.text import counted, escaped

        kwargs = determine_kwargs(self.python_callable, self.op_args, {**context, **self.op_kwargs})
        without_error = tuple(kind for name, kind in vars(exceptions).items() if name in WITHOUT_ERROR)

        def work(messages: list[dict[str, Any]]) -> Mapping[str, str]:
            # The function may change the messages.
            ids = {message["id"] for message in messages}
            try:
                value = self.python_callable(*self.op_args, **{**kwargs, MESSAGES: messages})
            except MessagesFailed as failed:
                causes = {id_: escaped(cause, MAX_FAILURE_LENGTH) for id_, cause in failed.causes.items()}
                if unknown := causes.keys() - ids:
                    which = counted(len(unknown), "id that is", "ids that are")
                    raise BatchError(
                        name_of(self.inbox, self.workflow_conn_id),
                        f"MessagesFailed names {which} not in the batch, such as {escaped(min(unknown))}."
                        " Give ids of messages of this call; nothing of the batch was acknowledged",
                    ) from None
                return causes
            except without_error as error:
                raise BatchError(
                    name_of(self.inbox, self.workflow_conn_id),
                    f"the function raised {type(error).__name__}, with which the task would end without an"
                    " error, though its messages are not processed. Return from the function, or raise"
                    " MessagesFailed",
                ) from None
            if isinstance(value, UNSTARTED):
                raise TypeError(f"The function returned a {type(value).__name__}, which has not run")
            return {}

        return work

    def get_openlineage_facets_on_complete(self, _: Any) -> Any:
        """The inbox; Airflow's OpenLineage provider calls this after the task."""
        from airflow_provider_workflow.operators.lineage import of_inbox

        return of_inbox(self.hook, self.inbox)


def workflow_inbox_task(
    python_callable: Callable[..., Any] | None = None, **kwargs: Unpack[BatchArguments]
) -> Callable[[Callable[Concatenate[Any, Others], Returned]], Task[Others, Returned]]:
    """
    The same as ``@task.workflow_inbox``, with types: editors and type checkers know the arguments.

    Airflow's types accept any decorator of ``task``, with any arguments. For a type checker the task takes
    the parameters of the function but the first one, which must be ``messages``.

    :param python_callable: the function, if the decorator has no arguments.
    :param kwargs: arguments of ``WorkflowInboxDecoratedOperator``.
    """
    return task_decorator_factory(  # type: ignore[return-value]  # more than Airflow's types say
        python_callable=python_callable,
        decorated_operator_class=WorkflowInboxDecoratedOperator,
        **kwargs,
    )
