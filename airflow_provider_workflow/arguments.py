"""
Types of keyword arguments, by which editors and type checkers know what ``@inbox_dag`` and others take.

Only type checkers read this module: no DAG file loads it.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, MutableMapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal, Required, TypedDict

if TYPE_CHECKING:
    import jinja2
    from airflow.sdk import DAG, Context, TaskGroup

Callback = Callable[["Context"], Any] | Collection[Callable[["Context"], Any]] | None
"""What Airflow calls with the context of a task or a run: a function, a notifier, or several of them."""


class DispatchArguments(TypedDict, total=False):
    """Optional arguments that dispatch operator and sensor share; ``DispatchingOperator`` documents them."""

    workflow_conn_id: str
    max_messages: int | None
    max_unfinished_runs: int | None
    on_rejected: Literal["fail", "log"]
    match: str | None
    once_per: str | None
    trace_context: str | None
    schema: Any
    dead_letter_dag_id: str | None
    dead_letter_after: int
    unmatched: Literal["lease", "dead_letter"]
    lease_limit: int
    lease_seconds: int


class ListenerArguments(DispatchArguments, total=False):
    """The arguments of ``@inbox_dag`` for its listener; ``docs/inbox-dag.md`` says what each is for."""

    on_paused: Literal["fail", "log", "wait"]
    """``log`` is for ``listener="notice"``, and ``wait`` for ``listener="sensor"``."""
    poll_interval: float
    max_poll_interval: float
    wake_on_events: bool
    renotify_seconds: float
    """Only with ``listener="notice"``."""
    deferrable: bool
    """Only with ``listener="sensor"``."""


class DagArguments(TypedDict, total=False):
    """The arguments of Airflow's ``DAG``, but ``dag_id`` and ``schedule``."""

    description: str | None
    start_date: datetime | None
    end_date: datetime | None
    template_searchpath: str | Iterable[str] | None
    template_undefined: "type[jinja2.StrictUndefined]"
    user_defined_macros: dict[str, Any] | None
    user_defined_filters: dict[str, Any] | None
    default_args: dict[str, Any] | None
    max_active_tasks: int
    max_active_runs: int
    max_consecutive_failed_dag_runs: int
    dagrun_timeout: timedelta | None
    sla_miss_callback: None
    catchup: bool
    on_success_callback: Callback
    on_failure_callback: Callback
    deadline: Any
    doc_md: str | None
    params: Mapping[str, Any] | None
    access_control: dict[str, Any] | None
    is_paused_upon_creation: bool | None
    jinja_environment_kwargs: dict[str, Any] | None
    render_template_as_native_obj: bool
    tags: Collection[str] | None
    owner_links: dict[str, str] | None
    auto_register: bool
    fail_fast: bool
    allowed_run_types: str | Collection[str] | None
    dag_display_name: str | None
    task_group: "TaskGroup | None"
    disable_bundle_versioning: bool
    rerun_with_latest_version: bool | None


class InboxDagArguments(ListenerArguments, DagArguments, total=False):
    """The arguments of ``@inbox_dag`` that its own signature does not name."""


class TaskArguments(TypedDict, total=False):
    """The arguments of Airflow's ``BaseOperator``; some need a newer Airflow than 3.2."""

    task_id: str
    owner: str
    email: str | Sequence[str] | None
    email_on_retry: bool
    email_on_failure: bool
    retries: int | None
    retry_delay: timedelta | float
    retry_exponential_backoff: float
    max_retry_delay: timedelta | float | None
    retry_policy: Any
    start_date: datetime | None
    end_date: datetime | None
    depends_on_past: bool
    ignore_first_depends_on_past: bool
    wait_for_past_depends_before_skipping: bool
    wait_for_downstream: bool
    dag: "DAG | None"
    params: MutableMapping[str, Any] | None
    default_args: dict[str, Any] | None
    priority_weight: int
    weight_rule: Any
    queue: str
    pool: str | None
    pool_slots: int
    sla: timedelta | None
    execution_timeout: timedelta | None
    on_execute_callback: Callback
    on_failure_callback: Callback
    on_success_callback: Callback
    on_retry_callback: Callback
    on_skipped_callback: Callback
    pre_execute: "Callable[[Context], None] | None"
    post_execute: "Callable[[Context, Any], None] | None"
    trigger_rule: str
    resources: dict[str, Any] | None
    run_as_user: str | None
    map_index_template: str | None
    max_active_tis_per_dag: int | None
    max_active_tis_per_dagrun: int | None
    executor: str | None
    executor_config: dict[str, Any] | None
    do_xcom_push: bool
    multiple_outputs: bool
    inlets: Any
    outlets: Any
    task_group: "TaskGroup | None"
    doc: str | None
    doc_md: str | None
    doc_json: str | None
    doc_yaml: str | None
    doc_rst: str | None
    task_display_name: str | None
    logger_name: str | None
    allow_nested_operators: bool
    render_template_as_native_obj: bool | None


class SensorArguments(TaskArguments, total=False):
    """The arguments of Airflow's ``BaseSensorOperator``; ``poll_interval`` stands for ``poke_interval``."""

    timeout: timedelta | float | None
    soft_fail: bool
    mode: Literal["poke", "reschedule"]
    exponential_backoff: bool
    max_wait: timedelta | float | None
    silent_fail: bool
    never_fail: bool


class DispatchTaskArguments(DispatchArguments, TaskArguments, total=False):
    """The arguments of the dispatch operator that its own signature does not name."""


class DispatchSensorArguments(DispatchArguments, SensorArguments, total=False):
    """The arguments of the inbox sensor that its own signature does not name."""


class BatchArguments(TaskArguments, total=False):
    """The arguments of ``@task.workflow_inbox``; ``docs/batches.md`` says what each is for."""

    inbox: Required[str]
    workflow_conn_id: str
    batch_size: int
    lease_seconds: int
    max_messages: int | None
    dead_letter_dag_id: str | None
    dead_letter_after: int
