"""Checks arguments of operators, sensors and decorators, when a DAG file is parsed and after rendering."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Literal, TypeVar

from airflow_provider_workflow.airflow_internals import airflow_release, needs
from airflow_provider_workflow.client.arguments import require_int, require_text
from airflow_provider_workflow.limits import DEAD_LETTER_AFTER

Choice = TypeVar("Choice", bound=str)

SAME_DAG = "dead_letter_dag_id must name another DAG than trigger_dag_id, which rejects the messages"
NO_TARGET = "trigger_dag_id must name at least one DAG, as a string or as the keys of a dictionary"


def known_later(value: Any) -> bool:
    """Whether a value is known only when the task runs: a template, or the output of another task."""
    if isinstance(value, str):
        return "{{" in value or "{%" in value
    return callable(getattr(value, "resolve", None))


def whole_number(value: Any) -> Any:
    """Convert a string of digits, from a template, to an integer; return any other value unchanged."""
    return int(value) if isinstance(value, str) and value.isascii() and value.isdigit() else value


def check_string(field: str, value: Any, longest: int | None = None) -> Any:
    """
    Check a required string; one that is known only at run time is not checked.

    :param longest: maximum number of characters.
    :raises ValueError: it is empty, too long, or not a string; the text names the argument.
    """
    return value if known_later(value) else require_text(field, check_output(field, value), longest)


def rendered(field: str, value: Any, *, optional: bool = False) -> Any:
    """
    A templated name, after it was rendered, as a string.

    With ``render_template_as_native_obj`` Airflow makes a number of the name ``20260101``. It also makes one
    of ``1.10``, which no longer shows the name.

    :param optional: whether it may be None.
    :raises ValueError: it was rendered to something else; the text names the argument and the fix.
    """
    if value is None and optional:
        return None
    if isinstance(value, (str, int)) and value != "":
        return str(value)
    what = f"a {type(value).__name__}"
    if value is None or value == "":
        what = "None" if value is None else "an empty string"
    raise ValueError(
        f"{field} was rendered to {what}. Give a template that yields a string that is not empty, or"
        " render_template_as_native_obj=False on the task"
    )


def check_output(field: str, value: Any) -> Any:
    """
    Check that an argument is not a task, whose output is meant.

    :raises ValueError: it is one; the text names the fix.
    """
    task_id = getattr(value, "task_id", None)
    if task_id is not None and hasattr(value, "output"):
        raise ValueError(f"{field} is the task {task_id!r} itself: give its .output")
    return value


def check_choice(field: str, value: Choice, choices: tuple[str, ...]) -> Choice:
    """
    :raises ValueError: the value is not one of ``choices``.
    """
    if value not in choices:
        raise ValueError(f"{field} must be one of {', '.join(map(repr, choices))}, not {value!r}")
    return value


def check_acknowledge(
    acknowledge: Literal["auto", "manual"] | None, trigger_dag_id: Any, max_unfinished_runs: int | None
) -> Literal["auto", "manual"] | None:
    """
    How messages are acknowledged; None if that is done after their runs were started.

    :raises ValueError: the arguments contradict each other.
    :raises AirflowOptionalProviderFeatureException: this Airflow has no task state store.
    """
    if trigger_dag_id is not None:
        if acknowledge is not None:
            raise ValueError(
                "acknowledge cannot be given with trigger_dag_id:"
                " a message is acknowledged once its run exists"
            )
        return None
    if max_unfinished_runs is not None:
        raise ValueError("max_unfinished_runs needs trigger_dag_id")
    mode: Literal["auto", "manual"] = "auto" if acknowledge is None else acknowledge
    chosen = check_choice("acknowledge", mode, ("auto", "manual"))
    if chosen == "auto" and airflow_release() < (3, 3):
        raise needs('acknowledge="auto"', 'give trigger_dag_id, or acknowledge="manual"')
    return chosen


def check_keeps_messages(
    acknowledge: str | None, *, retries: int | None, do_xcom_push: bool, multiple_outputs: bool = False
) -> None:
    """
    Check the arguments of Airflow's own that would lose what a sensor returns.

    Called when the DAG is parsed, and again before anything is leased, as ``default_args``, a mapping or a
    cluster policy may set them.

    :param acknowledge: ``auto``, ``manual``, or None for a sensor that returns no messages.
    :raises ValueError: one of them would; the text names it.
    """
    if acknowledge is None:
        return
    if not do_xcom_push:
        lost = "messages would be acknowledged" if acknowledge == "auto" else "the lease would be taken"
        raise ValueError(
            f'do_xcom_push must be True with acknowledge="{acknowledge}": {lost}, and no task would get them'
        )
    if acknowledge == "auto" and multiple_outputs:
        raise ValueError(
            'multiple_outputs must be False with acknowledge="auto": the result is a list of messages, which'
            " Airflow would not store"
        )
    if acknowledge == "auto" and not retries:
        text = "a retry returns the messages that a killed try received"
        raise ValueError(f'retries must be 1 or more with acknowledge="auto": {text}')


def check_sensor_options(
    deferrable: bool, silent_fail: bool, max_wait: Any, max_poll_interval: float
) -> None:
    """
    :raises ValueError: an argument of Airflow's sensors is given that has no effect in the triggerer.
    """
    if deferrable and (silent_fail or max_wait is not None):
        unusable = "silent_fail" if silent_fail else "max_wait"
        raise ValueError(
            f"{unusable} cannot be used with deferrable=True: give retries, soft_fail, never_fail or"
            f" max_poll_interval (seconds, now {max_poll_interval:g}) instead, or deferrable=False"
        )


def check_routes(
    targets: str | Mapping[str, str] | None,
    match: str | None,
    once_per: str | None,
    trace_context: str | None,
) -> None:
    """
    Compile the expressions that are no templates, so that an invalid one fails when the DAG is parsed.

    :raises ValueError: an expression is invalid, or there is no DAG id.
    :raises AirflowOptionalProviderFeatureException: ``trace_context`` is given, and this Airflow is older
        than 3.4.
    """
    if isinstance(targets, Collection) and not (targets and isinstance(targets, (str, Mapping))):
        raise ValueError(NO_TARGET)
    for target in targets if isinstance(targets, Mapping) else [check_output("trigger_dag_id", targets)]:
        if (dag_id := getattr(target, "dag_id", None)) is not None:
            raise ValueError(f"trigger_dag_id must have the id of the DAG, {dag_id!r}, not the DAG itself")
    if trace_context is not None and airflow_release() < (3, 4):
        raise needs("trace_context", "leave it out, and runs have traces of their own", (3, 4))
    for name, expression in (("once_per", once_per), ("trace_context", trace_context)):
        if expression is not None and targets is None:
            raise ValueError(f"{name} needs trigger_dag_id: without it no runs are started")
    routes = targets if isinstance(targets, Mapping) else {}
    _compile_routes(routes, match, once_per, trace_context)


def _compile_routes(routes: Mapping[str, str], *expressions: str | None) -> None:
    """
    Compile those that are no templates.

    :param routes: DAG ids with the expression that each is chosen by.
    :param expressions: ``match``, ``once_per`` and ``trace_context``.
    :raises ValueError: an expression is invalid.
    """
    known = {dag_id: expression for dag_id, expression in routes.items() if not known_later(expression)}
    ready = [None if known_later(expression) else expression for expression in expressions]
    if known or any(expression is not None for expression in ready):
        # Imports jmespath, so only for DAG files that need it.
        from airflow_provider_workflow.dispatch.routing import Routes

        Routes(known or None, *ready)


def check_schema(schema: Any, targets: Any) -> Callable[[Any], None] | None:
    """
    The check of payloads that a schema stands for; None without a schema.

    :raises ValueError: it is no schema, or there is no DAG to start.
    """
    if schema is None:
        return None
    if targets is None:
        raise ValueError("schema needs trigger_dag_id: without it no runs are started")
    from airflow_provider_workflow.dispatch.schema import checker

    return checker(schema)


def check_dead_letters(
    dead_letter_dag_id: str | None,
    dead_letter_after: int,
    unmatched: Literal["lease", "dead_letter"],
    targets: Any,
) -> None:
    """
    :raises ValueError: an argument is invalid, or contradicts another one; the text names it.
    """
    require_int("dead_letter_after", dead_letter_after, DEAD_LETTER_AFTER)
    check_choice("unmatched", unmatched, ("lease", "dead_letter"))
    if dead_letter_dag_id is None:
        if unmatched == "dead_letter":
            raise ValueError('unmatched="dead_letter" needs dead_letter_dag_id')
        if dead_letter_after != 3:
            raise ValueError("dead_letter_after needs dead_letter_dag_id")
        return
    check_string("dead_letter_dag_id", dead_letter_dag_id)
    if targets is None:
        raise ValueError("dead_letter_dag_id needs trigger_dag_id: without it no runs are started")
    if dead_letter_dag_id in (targets if isinstance(targets, Mapping) else [targets]):
        raise ValueError(SAME_DAG)
