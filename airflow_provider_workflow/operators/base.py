"""The base classes of the operators and of the sensor: the arguments, checks and retries that they share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from functools import cached_property, wraps
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar

from airflow.providers.common.compat.sdk import (
    AirflowException,
    AirflowFailException,
    AirflowSkipException,
)
from airflow.sdk import BaseOperator

from airflow_provider_workflow.client.errors import WorkflowError
from airflow_provider_workflow.limits import Limits
from airflow_provider_workflow.links import StartedRunsLink
from airflow_provider_workflow.options import (
    NO_TARGET,
    SAME_DAG,
    check_choice,
    check_dead_letters,
    check_routes,
    check_schema,
    check_string,
    rendered,
)

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_provider_workflow.dispatch.dispatcher import Dispatcher
    from airflow_provider_workflow.dispatch.holding import TaskLife
    from airflow_provider_workflow.hooks.workflow import WorkflowHook

T = TypeVar("T")


class OwnDefaults(BaseOperator):
    """
    Is retried with growing pauses, unless arguments or ``default_args`` say otherwise.

    The pauses begin with ``retry_delay`` (10 s) and double up to ``max_retry_delay``. A longer
    ``retry_delay`` raises the default of ``max_retry_delay``. ``multiple_outputs`` is that of the class, so
    that each field of a returned dictionary is an output: ``ensure.output["name"]``.
    """

    RETRIES: ClassVar[int] = 12
    """The pauses take 70 minutes or more, so the last try is after the end of an hourly rate limit."""
    MAX_RETRY_PAUSE: ClassVar[timedelta] = timedelta(minutes=10)
    MULTIPLE_OUTPUTS: ClassVar[bool] = False
    """True for a class that returns a dictionary with the same fields in each run."""

    def __init__(self, **kwargs: Any) -> None:
        # Airflow passes the default_args of the task, its task groups and its DAG, merged.
        explicit = {*kwargs, *(kwargs.get("default_args") or ())}
        super().__init__(**kwargs, **self._defaults(explicit))
        if "max_retry_delay" not in explicit:
            self.max_retry_delay = max(self.MAX_RETRY_PAUSE, self.retry_delay)

    @classmethod
    def partial(cls, **kwargs: Any) -> Any:
        """The same as ``BaseOperator.partial``, with the defaults of this class instead of Airflow's."""
        partial = super().partial(**kwargs)
        values = partial.kwargs
        levels = [kwargs, kwargs.get("default_args") or {}]
        levels += [parent.default_args for parent in (values["dag"], values["task_group"]) if parent]
        explicit = {name for level in levels for name in level}
        values.update(cls._defaults(explicit))
        if "max_retry_delay" not in explicit:
            values["max_retry_delay"] = max(cls.MAX_RETRY_PAUSE, values["retry_delay"])
        return partial

    @classmethod
    def _defaults(cls, explicit: set[str]) -> dict[str, Any]:
        defaults = {
            "retries": cls.RETRIES,
            "retry_delay": timedelta(seconds=10),
            "retry_exponential_backoff": True,
            "multiple_outputs": cls.MULTIPLE_OUTPUTS,
        }
        return {name: value for name, value in defaults.items() if name not in explicit}


class WorkflowOperator(OwnDefaults):
    """
    Makes calls of the service through one connection.

    By default it is retried, with pauses that double from 10 s to 10 minutes.

    :param workflow_conn_id: id of the Airflow connection (templated).
    """

    template_fields: Sequence[str] = ("workflow_conn_id",)
    ui_color = "#dbe7ff"

    def __init__(self, *, workflow_conn_id: str = "workflow_default", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.workflow_conn_id = check_string("workflow_conn_id", workflow_conn_id)

    @cached_property
    def hook(self) -> WorkflowHook:
        """The hook, made when the task runs, so that parsing a DAG file does not import it."""
        from airflow_provider_workflow.hooks.workflow import WorkflowHook

        return WorkflowHook(rendered("workflow_conn_id", self.workflow_conn_id))

    def _reconnect(self) -> None:
        """Let the next call read the connection again, which may have been corrected."""
        self.hook.close()
        vars(self).pop("hook", None)


def retries_transient_errors(execute: Callable[[Any, Context], T]) -> Callable[[Any, Context], T]:
    """
    Decorates ``execute``: only a transient error is retried to the end, such as a rate limit.

    Another one, such as rejected credentials or a wrong argument, fails the task in its second try.
    """

    @wraps(execute)
    def execute_once(self: Any, context: Context) -> T:
        from airflow_provider_workflow.hooks.workflow import may_be_away

        try:
            return execute(self, context)
        except (AirflowFailException, AirflowSkipException):
            raise
        except (WorkflowError, ValueError, AirflowException) as error:
            # A unit test of a DAG may give an empty context.
            is_first = getattr(context.get("ti"), "try_number", 1) == 1
            if is_first or getattr(error, "transient", False) or may_be_away(error):
                raise
            raise AirflowFailException(str(error)) from error

    return execute_once


class ReleasesOnKill:
    """Releases its lease when Airflow ends the task."""

    inbox: str
    _worker: Any = None
    """What works on messages, once the task runs."""

    @cached_property
    def _task(self) -> TaskLife:
        from airflow_provider_workflow.dispatch.holding import TaskLife

        return TaskLife()

    def on_kill(self) -> None:
        """
        Release the current lease, if any, and lease nothing more: Airflow is ending the task.

        :raises TaskKilled: the task was working on a lease.
        """
        self._task.kill(self.inbox)


class DispatchingOperator(ReleasesOnKill, WorkflowOperator):
    """
    Starts one DAG run for each message of an inbox: the base class of the dispatch operator and the sensor.

    By default it is retried, with pauses that double from 10 s to 2 minutes: sound messages wait that long
    behind one that kills its process.

    :param inbox: id or name of the inbox (templated).
    :param trigger_dag_id: DAG to start for each message, or DAG ids with the JMESPath expression that
        each is chosen by, tried in order (templated).
    :param max_messages: maximum number of messages, 1 or more; None for 10,000.
    :param max_unfinished_runs: runs of the target DAG that may be queued and running at once, 1 or more;
        without capacity nothing is leased, and the messages stay in the inbox.
    :param on_rejected: ``fail`` fails the task at its end if a message was rejected, ``log`` only logs it.
        With ``dead_letter_dag_id`` the task fails only if that DAG rejected the message too.
    :param on_paused: what is done about an inbox that the service has paused and that has no more messages:
        ``fail``, or ``log`` (the operator) or ``wait`` (the sensor). A pause by a user never fails a task.
    :param match: JMESPath expression over a message (templated). A message for which it is false is not
        acknowledged, and is quarantined in the end unless another consumer acknowledges it.
    :param once_per: JMESPath expression over a message whose value is its business key, such as
        ``payload.order_id`` (templated): messages with the same key start one run. Later ones find it and are
        acknowledged, as ``repeated``, as long as Airflow keeps the run. A message without a key, or without
        one of its parts, starts a run of its own.
    :param trace_context: JMESPath expression over a message whose value is a W3C trace context, such as
        ``payload.traceparent`` (templated; Airflow 3.4): the run and its tasks become a part of that trace.
        Without it, or where the value is malformed, they are a part of this task's.
    :param schema: what payloads must fit: a JSON Schema as a dictionary, or a type that pydantic can
        validate, such as a ``TypedDict``, a dataclass or a model. Other messages are rejected, and those
        whose check, by the schema or an expression, takes more than 5 s of CPU time.
    :param dead_letter_dag_id: DAG to start for a message that Airflow keeps rejecting (templated); the
        message is then acknowledged. Without it such a message is quarantined in the end.
    :param dead_letter_after: delivery count from which a rejected message is a dead letter, 1 to 4.
    :param unmatched: ``lease`` leaves a message that no route takes to its lease, for another consumer;
        with ``dead_letter`` it is a dead letter too, from the same delivery count on.
    :param lease_limit: messages per lease, 1 to 100.
    :param lease_seconds: length of a lease, 60 to 3600 s.
    :param workflow_conn_id: id of the Airflow connection (templated).
    """

    template_fields: Sequence[str] = (
        "inbox",
        "trigger_dag_id",
        "match",
        "once_per",
        "trace_context",
        "dead_letter_dag_id",
        *WorkflowOperator.template_fields,
    )
    template_fields_renderers: ClassVar[dict[str, str]] = {"trigger_dag_id": "json"}
    operator_extra_links = (StartedRunsLink(),)
    MAX_RETRY_PAUSE = timedelta(minutes=2)
    RETRIES: ClassVar[int] = 5
    """Fewer, as a try may use one of a message's few deliveries, and the next run works on what is left."""
    ON_PAUSED: ClassVar[tuple[str, ...]] = ("fail", "log")
    """The values of ``on_paused``."""
    TARGET_IS_OPTIONAL: ClassVar[bool] = False
    """Whether ``trigger_dag_id`` may be None."""

    def __init__(
        self,
        *,
        inbox: str,
        trigger_dag_id: str | Mapping[str, str] | None,
        max_messages: int | None = None,
        max_unfinished_runs: int | None = None,
        on_rejected: Literal["fail", "log"] = "fail",
        on_paused: Literal["fail", "log", "wait"] = "fail",
        match: str | None = None,
        once_per: str | None = None,
        trace_context: str | None = None,
        schema: Any = None,
        dead_letter_dag_id: str | None = None,
        dead_letter_after: int = 3,
        unmatched: Literal["lease", "dead_letter"] = "lease",
        lease_limit: int = 100,
        lease_seconds: int = 300,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.limits = Limits(lease_limit, lease_seconds, max_messages, max_unfinished_runs)
        if trigger_dag_id is None and not self.TARGET_IS_OPTIONAL:
            raise ValueError(NO_TARGET)
        check_routes(trigger_dag_id, match, once_per, trace_context)
        self.check_payload = check_schema(schema, trigger_dag_id)
        check_dead_letters(dead_letter_dag_id, dead_letter_after, unmatched, trigger_dag_id)
        self.inbox = check_string("inbox", inbox)
        self.trigger_dag_id = trigger_dag_id
        self.match = match
        self.once_per = once_per
        self.trace_context = trace_context
        self.schema = schema
        self.on_rejected = check_choice("on_rejected", on_rejected, ("fail", "log"))
        self.on_paused = check_choice("on_paused", on_paused, self.ON_PAUSED)
        self.dead_letter_dag_id = dead_letter_dag_id
        self.dead_letter_after = dead_letter_after
        self.unmatched = unmatched
        self._given = {name for name in DispatchingOperator.template_fields if getattr(self, name)}

    @property
    def _inbox_name(self) -> str:
        """The name of the inbox, as far as this process knows it; escaped."""
        from airflow_provider_workflow.inbox_names import name_of

        return name_of(self.inbox, self.workflow_conn_id)

    def _read_rendered(self) -> None:
        """Let the templated names be strings, after Airflow has rendered them."""
        for field in DispatchingOperator.template_fields:
            value = getattr(self, field)
            if not isinstance(value, Mapping):
                setattr(self, field, rendered(field, value, optional=field not in self._given))
        targets: Any = self.trigger_dag_id
        targets = targets if isinstance(targets, Mapping) else [targets]
        if self.dead_letter_dag_id is not None and self.dead_letter_dag_id in targets:
            raise ValueError(SAME_DAG)

    def _new_dispatcher(self, context: Context, failed_polls: int = 0, **more: Any) -> Dispatcher:
        from airflow_provider_workflow.dispatch.dead_letters import DeadLetterRules
        from airflow_provider_workflow.dispatch.dispatcher import Dispatcher
        from airflow_provider_workflow.dispatch.payload_store import PayloadStore
        from airflow_provider_workflow.dispatch.routing import Routes
        from airflow_provider_workflow.dispatch.runs import TaskRuns, origin_of

        rules = None
        if self.dead_letter_dag_id is not None:
            rules = DeadLetterRules(self.dead_letter_dag_id, self.dead_letter_after, self.unmatched)
        return Dispatcher(
            self.hook,
            self.inbox,
            Routes(self.trigger_dag_id, self.match, self.once_per, self.trace_context),
            TaskRuns(context["ti"]),
            self.limits,
            attempt=context["ti"].try_number + failed_polls,
            origin=origin_of(context),
            check_payload=self.check_payload,
            dead_letter_rules=rules,
            store=PayloadStore.configured(),
            task=self._task,
            **more,
        )

    def get_openlineage_facets_on_complete(self, _: Any) -> Any:
        """The inbox and the started runs; Airflow's OpenLineage provider calls this after the task."""
        from airflow_provider_workflow.operators.lineage import of_inbox

        # With once_per the ids of runs do not follow from those of messages.
        result = self._worker.counts.result if self._worker and not self.once_per else None
        return of_inbox(self.hook, self.inbox, self.trigger_dag_id, result)
