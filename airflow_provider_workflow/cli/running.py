"""
Runs a command: access to connections, output streams, errors and exit codes.

A command returns its exit code. The exceptions that it raises (of the service, of Airflow, ``ValueError`` for
a wrong argument) are printed as one line on stderr and mapped to a code of ``Exit``; an exception can set
its own as ``exit_code``.
"""

from __future__ import annotations

import os
import traceback
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from importlib import import_module
from typing import TYPE_CHECKING

from airflow_provider_workflow.cli import output
from airflow_provider_workflow.cli.output import LOG_LEVEL, debugging, ignore_warnings, reduced_logging

if TYPE_CHECKING:
    from airflow_provider_workflow.hooks.workflow import WorkflowHook


PROCESS_CONTEXT = "_AIRFLOW_PROCESS_CONTEXT"


class Exit(IntEnum):
    """Exit codes; ``definition.EXIT_CODES`` documents them."""

    OK = 0
    FAULT = 1
    USAGE = 2
    NOT_FOUND = 3
    NOTHING_TO_LEASE = 4
    CREDENTIALS = 5
    INTERRUPTED = 130
    CLOSED_PIPE = 141


def run(function: str, args: Namespace) -> int:
    """
    Run a command and return its exit code.

    :param function: its import path.
    :param args: the parsed arguments.
    """
    try:
        with output.stdout_for_results(), reduced_logging(), _as_airflow_command():
            module, _, name = function.rpartition(".")
            return int(getattr(import_module(module), name)(args))
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    except BrokenPipeError:
        return Exit.CLOSED_PIPE
    except Exception as error:
        return _report(error)


@contextmanager
def _as_airflow_command() -> Iterator[None]:
    """
    Read connections and Variables from the metadata database too, as Airflow's own commands do.

    Otherwise the Task SDK reads only the environment and secrets backends.
    """
    before = os.environ.get(PROCESS_CONTEXT)
    os.environ[PROCESS_CONTEXT] = "server"
    try:
        yield
    finally:
        if before is None:
            del os.environ[PROCESS_CONTEXT]
        else:
            os.environ[PROCESS_CONTEXT] = before


def _report(error: Exception) -> int:
    """Print an error as one line, and return its exit code."""
    code = _code_of(error)
    if code is None:
        output.note(
            f"Error: unexpected {type(error).__name__}: {error} ({LOG_LEVEL}=DEBUG shows the traceback)"
        )
    else:
        output.note(f"Error: {error}")
    if debugging():
        for line in traceback.format_exception(error):
            for each in line.splitlines():
                output.note(each)
    return Exit.FAULT if code is None else code


def _code_of(error: Exception) -> int | None:
    """The exit code of an error; None for an unexpected one."""
    from airflow_provider_workflow.client.errors import (
        AuthenticationError,
        ConfigurationError,
        NotFoundError,
        WorkflowError,
    )

    own: int | None = getattr(error, "exit_code", None)
    if own is not None:
        return own
    if isinstance(error, (AuthenticationError, ConfigurationError)):
        return Exit.CREDENTIALS
    if isinstance(error, NotFoundError) or _is_missing_dag(error):
        return Exit.NOT_FOUND
    if isinstance(error, (WorkflowError, OSError)) or _is_airflows(error):
        return Exit.FAULT
    return Exit.USAGE if isinstance(error, ValueError) else None


def _is_missing_dag(error: Exception) -> bool:
    try:
        from airflow_provider_workflow.database.runs import MissingDagError
    except Exception:  # Airflow cannot be imported; report the original error
        return False
    return isinstance(error, MissingDagError)


def _is_airflows(error: Exception) -> bool:
    try:
        from airflow.providers.common.compat.sdk import AirflowException
    except Exception:  # Airflow cannot be imported; report the original error
        return False
    return isinstance(error, AirflowException)


def hook_of(args: Namespace) -> WorkflowHook:
    """
    Make the hook of ``--conn-id``, and check its connection.

    :raises ConfigurationError: there is no such connection, or its fields are missing or wrong.
    """
    from airflow.providers.common.compat.sdk import AirflowNotFoundException

    from airflow_provider_workflow.client.errors import ConfigurationError
    from airflow_provider_workflow.hooks.workflow import WorkflowHook

    ignore_warnings()
    hook = WorkflowHook(args.conn_id)
    try:
        settings = hook.settings
    except AirflowNotFoundException:
        variable = f"AIRFLOW_CONN_{args.conn_id.upper()}"
        fix = f"add it in Airflow's UI (Admin, Connections), set {variable}, or name another by --conn-id"
        raise ConfigurationError([f"Airflow has no connection {args.conn_id!r} ({fix})"]) from None
    # Airflow masks the field, as its name contains "token".
    output.exempt_from_masking(settings.token_url)
    return hook
