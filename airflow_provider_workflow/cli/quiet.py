"""Of what Airflow and its libraries log by the way, people at a terminal see warnings and above."""

from __future__ import annotations

import logging
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

LOG_LEVEL = "AIRFLOW__LOGGING__LOGGING_LEVEL"
"""Set to DEBUG, it shows everything, and where an error came from."""


def debugging() -> bool:
    """Whether somebody wants to see everything."""
    return os.environ.get(LOG_LEVEL, "").upper() == "DEBUG"


@contextmanager
def quietly() -> Iterator[None]:
    """Keep INFO and what is meant for Airflow's own developers from the terminal."""
    if debugging():
        yield
        return
    with ExitStack() as afterwards:
        if "airflow" in sys.modules:
            _quieten_structlog(afterwards)
        elif LOG_LEVEL not in os.environ:
            os.environ[LOG_LEVEL] = "WARNING"
            afterwards.callback(os.environ.pop, LOG_LEVEL, None)
        afterwards.callback(logging.disable, logging.root.manager.disable)
        logging.disable(logging.INFO)
        afterwards.enter_context(warnings.catch_warnings())
        hush_warnings()
        yield


def hush_warnings() -> None:
    """To be said again once Airflow is loaded: its configuration turns some warnings on."""
    if not debugging():
        warnings.simplefilter("ignore")


def _quieten_structlog(afterwards: ExitStack) -> None:
    """Airflow has configured its own loggers already, which those of Python's ``logging`` do not govern."""
    import structlog

    def from_warnings_on(_: Any, method: str, event: Any) -> Any:
        if method in ("debug", "info"):
            raise structlog.DropEvent
        return event

    # In place, as loggers that were used before hold on to this list.
    processors = structlog.get_config()["processors"]
    processors.insert(0, from_warnings_on)
    afterwards.callback(processors.remove, from_warnings_on)
