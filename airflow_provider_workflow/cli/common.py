"""
Runs a command: access to connections, errors and exit codes.

A command returns its exit code. An exception that it raises is printed as one line on stderr, and mapped to a
code of ``Exit``.
"""

from __future__ import annotations

import json
import os
import traceback
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from importlib import import_module
from typing import TYPE_CHECKING, Any

from airflow_provider_workflow.cli import output

if TYPE_CHECKING:
    from airflow_provider_workflow.hooks.workflow import WorkflowHook

LOG_LEVEL = "AIRFLOW__LOGGING__LOGGING_LEVEL"
"""Set to DEBUG, all log lines, Python warnings and tracebacks are shown; otherwise none."""
PROCESS_CONTEXT = "_AIRFLOW_PROCESS_CONTEXT"
"""Set to ``server``, Airflow reads connections and Variables from the metadata database too."""


class Exit(IntEnum):
    """Exit codes; ``tree.EXIT_CODES`` documents them."""

    OK = 0
    FAULT = 1
    USAGE = 2
    NOT_FOUND = 3
    NOTHING_TO_LEASE = 4
    CREDENTIALS = 5
    INTERRUPTED = 130
    CLOSED_PIPE = 141


def parsed_json(text: str) -> Any:
    """
    The value of a JSON argument.

    :raises ValueError: it is not JSON; ``NaN`` and ``Infinity``, which Python accepts, are named.
    """

    def refuse(word: str) -> None:
        raise ValueError(f"{word} is not a number of JSON")

    return json.loads(text, parse_constant=refuse)


def run(function: str, args: Namespace) -> int:
    """
    Run a command and return its exit code.

    :param function: its import path.
    :param args: the parsed arguments.
    """
    module, _, name = function.rpartition(".")
    try:
        return _run_quietly(module, name, args)
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    except BrokenPipeError:
        return Exit.CLOSED_PIPE
    except Exception as error:
        return _report(error)


def _run_quietly(module: str, name: str, args: Namespace) -> int:
    """Run a command without log lines, which would be on stdout too."""
    level = "DEBUG" if _is_debugging() else "CRITICAL"
    with _environment({LOG_LEVEL: level, PROCESS_CONTEXT: "server"}):
        from airflow_provider_workflow import airflow_internals

        def command(args: Namespace) -> None:
            codes.append(getattr(import_module(module), name)(args))

        codes: list[int] = []
        airflow_internals.run_quietly(command, args, verbose=_is_debugging())
        return int(codes[0])


def _is_debugging() -> bool:
    return os.environ.get(LOG_LEVEL) == "DEBUG"


@contextmanager
def _environment(variables: dict[str, str]) -> Iterator[None]:
    """Set environment variables for some time."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _report(error: Exception) -> int:
    """Print an error as one line, and return its exit code."""
    code = _code_of(error)
    unexpected = "" if code is not None else f"unexpected {type(error).__name__}: "
    hint = f"{LOG_LEVEL}=DEBUG shows the traceback" if unexpected else getattr(error, "fix", "")
    hint = f" ({hint})" if hint and hint not in str(error) else ""
    output.note(f"Error: {unexpected}{error}{hint}")
    if _is_debugging():
        for line in "".join(traceback.format_exception(error)).splitlines():
            output.note(line)
    return Exit.FAULT if code is None else code


def _code_of(error: Exception) -> int | None:
    """The exit code of an error; None for an unexpected one."""
    from airflow_provider_workflow.client.errors import (
        AuthenticationError,
        ConfigurationError,
        NotFoundError,
        WorkflowError,
    )

    try:
        from airflow.providers.common.compat.sdk import AirflowException

        from airflow_provider_workflow.database.dag_runs import MissingDagError
    except Exception:  # Airflow cannot be loaded, which is the error
        return None
    if isinstance(error, (AuthenticationError, ConfigurationError)):
        return Exit.CREDENTIALS
    if isinstance(error, (NotFoundError, MissingDagError)):
        return Exit.NOT_FOUND
    if isinstance(error, (WorkflowError, OSError, AirflowException)):
        return Exit.FAULT
    return Exit.USAGE if isinstance(error, ValueError) else None


def hook_of(args: Namespace) -> WorkflowHook:
    """
    Make the hook of ``--conn-id``, and check its connection.

    :raises ConfigurationError: it does not exist, or lacks fields.
    """
    from airflow_provider_workflow.hooks.workflow import WorkflowHook

    hook = WorkflowHook(args.conn_id)
    _ = hook.settings
    return hook
