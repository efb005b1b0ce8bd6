"""Counts the polls of a client in another process: each adds one byte to a file."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

POLLS_VARIABLE = "WORKFLOW_BENCH_POLLS"
"""Environment variable of the other process: the path of the file."""


@contextmanager
def polls_file() -> Iterator[Path]:
    """An empty file, removed in the end."""
    with tempfile.NamedTemporaryFile(prefix="workflow-bench-polls-") as file:
        yield Path(file.name)


def polls_in(file: Path) -> int:
    """How many polls were counted so far."""
    return file.stat().st_size


def counting(poll: Callable[..., Any]) -> Callable[..., Any]:
    """The function, each call of which is counted in the file that the environment names."""
    file = os.open(os.environ[POLLS_VARIABLE], os.O_WRONLY | os.O_APPEND)

    def counted(*arguments: Any, **named: Any) -> Any:
        os.write(file, b".")
        return poll(*arguments, **named)

    return counted
