"""
``@task.workflow_inbox``: a task whose function is called with the messages of an inbox, batch by batch::

    from airflow.sdk import task


    @task.workflow_inbox(inbox="orders", batch_size=100)
    def store(messages):
        insert([message["payload"] for message in messages])
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.providers.common.compat.sdk import (
    DecoratedOperator,
    determine_kwargs,
    task_decorator_factory,
)

from airflow_provider_workflow.client.arguments import LEASE_LIMIT, within
from airflow_provider_workflow.dispatch.targets import DEAD_LETTER_AFTER, LEASE_SECONDS
from airflow_provider_workflow.operators.base import WorkflowOperator
from airflow_provider_workflow.options import (
    ANY_NUMBER,
    check_callbacks,
    check_on_dead_letter,
    check_string,
)
from airflow_provider_workflow.rendering import ABSENT
from airflow_provider_workflow.retry_defaults import RetriesByDefault

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import TaskDecorator
    from airflow.sdk import Context

    from airflow_provider_workflow.dispatch.alerts import Alerts
    from airflow_provider_workflow.dispatch.batches import Batches, BatchResult

__all__ = ["MessagesFailed", "WorkflowInboxDecoratedOperator", "workflow_inbox_task"]

MESSAGES = "messages"
"""The parameter of the function for the messages."""
BATCH_SIZE = LEASE_LIMIT
LONGEST_CAUSE = 300


class MessagesFailed(Exception):
    """
    Raised by the function of ``@task.workflow_inbox``: some messages of the batch failed.

    The other messages of the batch are acknowledged, and the work goes on with the next batch.

    :param ids: ids of the failed messages, 1 or more; or a dictionary of these ids with the causes, which are
        written to logs and dead letters, so they must not contain payloads.
    :raises ValueError: there is no id, or one is not a string.
    """

    def __init__(self, ids: Iterable[str] | Mapping[str, str]) -> None:
        if isinstance(ids, str) or not isinstance(ids, Iterable):
            raise ValueError(
                f"ids must be a list of message ids, or a dictionary of ids and causes, not a"
                f" {type(ids).__name__}"
            )
        causes = ids if isinstance(ids, Mapping) else dict.fromkeys(ids, "named in MessagesFailed")
        if not causes or not all(isinstance(each, str) for each in causes):
            raise ValueError(
                "ids must contain at least one message id, and strings only; return from the function if no"
                " message failed"
            )
        self.causes: dict[str, str] = {each: str(cause) for each, cause in causes.items()}
        super().__init__(self.causes)

    def __str__(self) -> str:
        return f"{len(self.causes)} messages failed"


class WorkflowInboxDecoratedOperator(RetriesByDefault, DecoratedOperator, WorkflowOperator):
    """
    Leases messages, calls a function with them, and acknowledges them after it has returned; batch by batch,
    until the inbox is empty.

    Each message is processed at least once: a batch is redelivered if the process is killed before it is
    acknowledged. Use it as ``@task.workflow_inbox`` on a function with the parameter ``messages``: a list of
    dictionaries with ``id``, ``created_at``, ``payload`` and ``message_attributes``. What the function
    returns is ignored. Its other parameters are those of any TaskFlow function.

    By default it has 5 retries, with pauses that double from 10 s; Airflow's arguments and ``default_args``
    win. Airflow ignores these defaults for mapped tasks: name ``retries`` there.

    :param inbox: id or name of the inbox (templated).
    :param batch_size: messages per batch, 1 to 100.
    :param lease_seconds: length of a lease, 60 to 3600 s. The function has 30 s less for a batch.
    :param max_batches: batches to lease at most, 1 or more; None until the inbox is empty.
    :param dead_letter_dag_id: DAG to start for a message that the function keeps failing for (templated); the
        message is then acknowledged. Without it such a message is quarantined in the end.
    :param dead_letter_after: delivery count from which a failed message is a dead letter, 1 to 4.
    :param on_dead_letter: function or notifier, or a list of these, called with the context for dead letters;
        see ``docs/alerting.md``. Only with ``dead_letter_dag_id``.
    :param on_quarantined: the same for messages that are found in quarantine.
    :param workflow_conn_id: id of the Airflow connection (templated).
    :raises ValueError: an argument is invalid; the text names it.
    """

    template_fields: Sequence[str] = (
        "inbox",
        "dead_letter_dag_id",
        *WorkflowOperator.template_fields,
        *DecoratedOperator.template_fields,
    )
    template_fields_renderers: ClassVar[dict[str, str]] = {**DecoratedOperator.template_fields_renderers}
    STRINGS = {  # noqa: RUF012 see RendersStrings
        "inbox": (),
        "dead_letter_dag_id": ABSENT,
        **WorkflowOperator.STRINGS,
    }
    custom_operator_name = "@task.workflow_inbox"

    def __init__(
        self,
        *,
        python_callable: Callable[..., Any],
        inbox: str,
        batch_size: int = 100,
        lease_seconds: int = 300,
        max_batches: int | None = None,
        dead_letter_dag_id: str | None = None,
        dead_letter_after: int = 3,
        on_dead_letter: Any = None,
        on_quarantined: Any = None,
        op_args: Collection[Any] | None = None,
        op_kwargs: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        check_arguments(inbox, batch_size, lease_seconds, max_batches, dead_letter_dag_id, dead_letter_after)
        super().__init__(
            python_callable=without_messages(python_callable),
            op_args=op_args,
            op_kwargs=op_kwargs,
            **kwargs,
        )
        self.inbox = inbox
        self.batch_size = batch_size
        self.lease_seconds = lease_seconds
        self.max_batches = max_batches
        self.dead_letter_dag_id = dead_letter_dag_id
        self.dead_letter_after = dead_letter_after
        self.on_dead_letter = check_on_dead_letter(on_dead_letter, dead_letter_dag_id)
        self.on_quarantined = check_callbacks("on_quarantined", on_quarantined)
        self._batches: Batches | None = None

    def execute(self, context: Context) -> BatchResult:
        """
        Process the messages of the inbox.

        :raises TargetError: the dead-letter DAG starts no runs; nothing was leased.
        :raises FailedMessagesError: messages failed, and did not become dead letters.
        :raises LeaseTooShortError: the function took longer than the lease.
        :raises InboxNotActiveError: the inbox is paused and had no messages.
        :raises WorkflowError: the service cannot be used.
        :raises Exception: what the function raised.
        """
        from airflow_provider_workflow.dispatch.batch_function import BatchFunction
        from airflow_provider_workflow.dispatch.batches import Batches, BatchLimits
        from airflow_provider_workflow.dispatch.dead_letters import DeadLetterRules
        from airflow_provider_workflow.dispatch.runs import TaskRuns
        from airflow_provider_workflow.dispatch.target_history import TargetHistory

        letters = self.dead_letter_dag_id
        self._batches = batches = Batches(
            self.hook,
            self.inbox,
            BatchFunction(self.inbox, self._work(context)),
            TaskRuns(context["ti"]),
            BatchLimits(self.batch_size, self.lease_seconds, self.max_batches),
            TargetHistory(context),
            DeadLetterRules(letters, self.dead_letter_after) if letters else None,
        )
        with self._alerts(context) as alerts:
            batches.on_dead_letter = alerts.add_dead_letter if alerts else None
            return batches.run()

    def _work(self, context: Context) -> Callable[[list[dict[str, Any]]], Mapping[str, str]]:
        """The function as a call with messages, which returns the failed ones with their causes."""
        given: dict[str, Any] = {**context, **self.op_kwargs}
        kwargs = determine_kwargs(self.python_callable, self.op_args, given)

        def work(messages: list[dict[str, Any]]) -> Mapping[str, str]:
            try:
                call_with(self.python_callable, messages, self.op_args, kwargs)
            except MessagesFailed as failed:
                return {each: _shown(cause) for each, cause in failed.causes.items()}
            return {}

        return work

    def _alerts(self, context: Context) -> AbstractContextManager[Alerts | None]:
        if not (self.on_dead_letter or self.on_quarantined):
            return nullcontext()
        from airflow_provider_workflow.dispatch.alerts import Alerts, Callbacks

        callbacks = Callbacks(self.on_dead_letter, self.on_quarantined, self.dead_letter_dag_id)
        return Alerts(callbacks, self.hook, self.inbox, context)

    def get_openlineage_facets_on_complete(self, _: Any) -> Any:
        """The inbox; Airflow's OpenLineage provider calls this after the task."""
        from airflow_provider_workflow.lineage import of_inbox

        return of_inbox(self.hook, self.inbox)

    def on_kill(self) -> None:
        """
        Release the current batch, if any, and lease nothing more: Airflow is ending the task.

        :raises TaskKilled: the task was working on a lease.
        """
        if self._batches is None:
            return
        from airflow_provider_workflow.dispatch.lease import TaskKilled

        self._batches.ended = TaskKilled(self.inbox)
        if self._batches.working:
            raise self._batches.ended


def workflow_inbox_task(
    python_callable: Callable[..., Any] | None = None, multiple_outputs: bool | None = None, **kwargs: Any
) -> TaskDecorator:
    """
    What ``@task.workflow_inbox`` calls.

    :param python_callable: the function, if the decorator has no arguments.
    :param multiple_outputs: whether each key of the result is an XCom of its own.
    :param kwargs: arguments of ``WorkflowInboxDecoratedOperator``.
    """
    return task_decorator_factory(
        python_callable=python_callable,
        multiple_outputs=multiple_outputs,
        decorated_operator_class=WorkflowInboxDecoratedOperator,
        **kwargs,
    )


def check_arguments(
    inbox: str,
    batch_size: int,
    lease_seconds: int,
    max_batches: int | None,
    dead_letter_dag_id: str | None,
    dead_letter_after: int,
) -> None:
    """
    :raises ValueError: an argument is invalid; the text names it.
    """
    check_string("inbox", inbox)
    within("batch_size", batch_size, BATCH_SIZE)
    within("lease_seconds", lease_seconds, LEASE_SECONDS)
    if max_batches is not None:
        within("max_batches", max_batches, ANY_NUMBER)
    within("dead_letter_after", dead_letter_after, DEAD_LETTER_AFTER)
    if dead_letter_dag_id is not None:
        check_string("dead_letter_dag_id", dead_letter_dag_id)


def without_messages(function: Callable[..., Any]) -> Callable[..., Any]:
    """
    A function with the signature that a DAG file calls: without ``messages``, which a batch brings.

    :raises ValueError: the function cannot be called with messages.
    """
    name, signature = getattr(function, "__name__", "function"), inspect.signature(function)
    found = signature.parameters.get(MESSAGES)
    if found is None or found.kind in (found.VAR_POSITIONAL, found.VAR_KEYWORD):
        raise ValueError(f"The function {name} of @task.workflow_inbox must have the parameter {MESSAGES!r}")
    # A call of such a function runs nothing of it.
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        raise ValueError(f"The function {name} of @task.workflow_inbox must not be async")
    if inspect.isgeneratorfunction(function):
        raise ValueError(f"The function {name} of @task.workflow_inbox must not yield; return from it")

    @functools.wraps(function)
    def called(*_: Any, **__: Any) -> None:
        raise TypeError(f"The function {name} is called by its task, with messages")

    others = [each for each in signature.parameters.values() if each.name != MESSAGES]
    called.__signature__ = signature.replace(parameters=others)  # type: ignore[attr-defined]
    return called


def call_with(
    called: Callable[..., Any],
    messages: list[dict[str, Any]],
    args: Collection[Any],
    kwargs: Mapping[str, Any],
) -> None:
    """
    Call the function that ``without_messages`` wrapped.

    :raises TypeError: it returns an awaitable or a generator, so that nothing of it has run.
    """
    function = called.__wrapped__  # type: ignore[attr-defined]
    signature = inspect.signature(function)
    others = inspect.signature(called).bind(*args, **kwargs).arguments
    given = {MESSAGES: messages, **others}
    ordered = {each: given[each] for each in signature.parameters if each in given}
    bound = inspect.BoundArguments(signature, ordered)
    bound.apply_defaults()
    value = function(*bound.args, **bound.kwargs)
    if inspect.isawaitable(value) or inspect.isgenerator(value) or inspect.isasyncgen(value):
        raise TypeError(
            f"The function of @task.workflow_inbox returned a {type(value).__name__}, which has not run;"
            " give a plain function"
        )


def _shown(cause: str) -> str:
    from airflow_provider_workflow.client.wire import plain

    return plain(cause, LONGEST_CAUSE)
