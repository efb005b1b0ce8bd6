"""The limits and the checks of arguments of operators and sensors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from airflow_provider_workflow.airflow_internals import airflow_release, needs
from airflow_provider_workflow.client.arguments import ANY_NUMBER, LEASE_LIMIT, filled, within

TASK_LEASE_SECONDS = (60, 3600)
"""No run is started in the last 30 s of a lease, so a shorter lease would leave no time."""
DEAD_LETTER_AFTER = (1, 4)
"""The service delivers a message about five times: after the fourth delivery there is about one left."""
PROBE_SECONDS = 3600
"""Length of a lease that probes a target after a failed try: a target that stays broken for hours costs a
waiting message about one delivery per hour."""


@dataclass(frozen=True)
class Limits:
    """
    How much is leased at a time.

    :param lease_limit: messages per lease, 1 to 100.
    :param lease_seconds: length of a lease, 60 to 3600 s.
    :param max_messages: messages in all, 1 or more; None for 10,000.
    :param max_unfinished_runs: runs that each target may have queued and running; None for any number.
    :raises ValueError: one is out of range; the text names it and the range.
    """

    lease_limit: int = 100
    lease_seconds: int = 300
    max_messages: int | None = None
    max_unfinished_runs: int | None = None

    def __post_init__(self) -> None:
        within("lease_limit", self.lease_limit, LEASE_LIMIT)
        within("lease_seconds", self.lease_seconds, TASK_LEASE_SECONDS)
        if self.max_messages is not None:
            within("max_messages", self.max_messages, ANY_NUMBER)
        if self.max_unfinished_runs is not None:
            within("max_unfinished_runs", self.max_unfinished_runs, ANY_NUMBER)

    def of_returned(self, attempt: int) -> int:
        """
        Messages of the lease of a sensor that returns them: each failed try halves it, as its size may have
        killed the process.

        :param attempt: try of the task, 1 or more.
        """
        return max(1, min(self.lease_limit, self.max_messages or self.lease_limit) >> (attempt - 1))


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
    return value if known_later(value) else filled(field, value, longest)


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


def check_choice(field: str, value: str, choices: tuple[str, ...]) -> str:
    """
    :raises ValueError: the value is not one of ``choices``.
    """
    if value not in choices:
        raise ValueError(f"{field} must be one of {', '.join(map(repr, choices))}, not {value!r}")
    return value


def check_acknowledge(
    acknowledge: str | None, trigger_dag_id: Any, max_unfinished_runs: int | None
) -> str | None:
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
    mode = "auto" if acknowledge is None else acknowledge
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
