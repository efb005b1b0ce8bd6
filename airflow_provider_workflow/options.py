"""Arguments of operators and sensors, checked when the DAG file is parsed, as far as they are known there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow.providers.common.compat.sdk import conf

from airflow_provider_workflow.client.arguments import LEASE_LIMIT, filled, within
from airflow_provider_workflow.room import Limits
from airflow_provider_workflow.routing import Routes

LEASE_SECONDS = (60, 3600)
"""No run is started in the last 30 s of a lease, so a shorter one would leave no time to work."""
ANY_NUMBER = (1, 10**9)


def check_limits(
    lease_limit: int, lease_seconds: int, max_messages: int | None, max_unfinished_runs: int | None
) -> Limits:
    """
    :raises ValueError: names the argument that is out of range, and the range.
    """
    within("lease_limit", lease_limit, LEASE_LIMIT)
    within("lease_seconds", lease_seconds, LEASE_SECONDS)
    if max_messages is not None:
        within("max_messages", max_messages, ANY_NUMBER)
    if max_unfinished_runs is not None:
        within("max_unfinished_runs", max_unfinished_runs, ANY_NUMBER)
    return Limits(lease_limit, lease_seconds, max_messages, max_unfinished_runs)


def known_later(value: Any) -> bool:
    """Whether a value is known only when the task runs: a template, or the output of another task."""
    if isinstance(value, str):
        return "{{" in value or "{%" in value
    return callable(getattr(value, "resolve", None))


def whole_number(value: Any) -> Any:
    """A number that a template turned into text, as a number again; anything else as it is."""
    return int(value) if isinstance(value, str) and value.isascii() and value.isdigit() else value


def check_text(field: str, value: Any, longest: int | None = None) -> Any:
    """
    Check a text that has to be there.

    :param longest: characters at most.
    :raises ValueError: names the argument: it is empty, too long, or no text.
    """
    return value if known_later(value) else filled(field, value, longest)


def deferrable_or_default(deferrable: bool | None) -> bool:
    """Whether to wait in the triggerer; None takes ``[operators] default_deferrable``."""
    if deferrable is None:
        return bool(conf.getboolean("operators", "default_deferrable", fallback=False))
    return deferrable


def check_choice(field: str, value: str, choices: tuple[str, ...]) -> str:
    """
    :raises ValueError: names the argument and what it may be.
    """
    if value not in choices:
        raise ValueError(f"{field} must be one of {', '.join(map(repr, choices))}, not {value!r}")
    return value


def check_routes(targets: str | Mapping[str, str] | None, match: str | None) -> None:
    """
    Compile the expressions, so that a wrong one fails where the DAG is parsed; templates are left alone.

    :raises ValueError: an expression is not valid, or there is no DAG id.
    """
    if match is not None and not known_later(match):
        Routes(None, match)
    if isinstance(targets, Mapping):
        plain = {dag_id: text for dag_id, text in targets.items() if not known_later(text)}
        if plain or not targets:
            Routes(plain)
    elif isinstance(targets, str):
        Routes(targets)
