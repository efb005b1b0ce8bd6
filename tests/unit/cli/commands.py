"""Commands for the tests of what surrounds every command."""

from __future__ import annotations

import logging
import warnings
from argparse import Namespace

import structlog

from airflow_provider_workflow.cli import output


def fails(args: Namespace) -> int:
    """Raise what the test wants."""
    raise args.error


def chatters(args: Namespace) -> int:
    """Let everybody talk who may, and show a result."""
    logging.getLogger("airflow").info("logged info")
    logging.getLogger("airflow").warning("logged warning")
    structlog.get_logger("airflow.models").info("structured info")
    structlog.get_logger("airflow.models").warning("structured warning")
    warnings.warn("deprecated", DeprecationWarning, stacklevel=1)
    output.note("told")
    output.show("json", {"the": "result"})
    return 0


def floods(args: Namespace) -> int:
    """Print more than a pipe holds."""
    for _ in range(10_000):
        output.write("x" * 100)
    return 0
