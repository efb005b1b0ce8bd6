"""What an Airflow of the tests has logged: entries of its processes, as text, and of its tasks, as JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

LEVELS = ("debug", "info", "warning", "error", "critical")
ALARMING = frozenset(LEVELS[2:])
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_OF_AIRFLOW = re.compile(rf"\S+(?: \S+)? \[({'|'.join(LEVELS)}) *\]")
_OF_UVICORN = re.compile(rf"({'|'.join(LEVELS).upper()}): ")
_OF_PYTHON = re.compile(r"\S+:\d+: \w*Warning: ")
_TRACEBACK = "Traceback (most recent call last)"


@dataclass(frozen=True)
class Entry:
    """
    One entry of a log.

    :param file: path of the log beneath Airflow's home.
    :param level: one of ``LEVELS``.
    :param text: all lines of it; a traceback belongs to the entry that it follows.
    """

    file: str
    level: str
    text: str

    @property
    def is_alarming(self) -> bool:
        """Whether it is a WARNING or above."""
        return self.level in ALARMING

    def __str__(self) -> str:
        return f"{self.file}: {self.text}"


def entries_of(home: Path) -> Iterator[Entry]:
    """Every entry of every log below the home of an Airflow."""
    for path in sorted(home.rglob("*.log")):
        yield from entries(str(path.relative_to(home)), path.read_text(errors="replace"))


def entries(file: str, text: str) -> Iterator[Entry]:
    """The entries of one log."""
    level, entry_text = "info", ""
    for line in _COLOUR.sub("", text).splitlines():
        new_level = _level(line)
        if new_level is None and line.startswith(_TRACEBACK) and level not in ALARMING:
            new_level = "error"
        if new_level is None:
            entry_text += f"\n{line}"
            continue
        if entry_text:
            yield Entry(file, level, entry_text)
        level, entry_text = new_level, line
    if entry_text:
        yield Entry(file, level, entry_text)


def _level(line: str) -> str | None:
    """The level of the entry that this line begins; None where the line belongs to the entry before."""
    if line.startswith("{"):
        return _level_of_json(line)
    if match := _OF_AIRFLOW.match(line) or _OF_UVICORN.match(line):
        return match[1].lower()
    return "warning" if _OF_PYTHON.match(line) else None


def _level_of_json(line: str) -> str | None:
    try:
        return str(json.loads(line)["level"]).lower()
    except (ValueError, KeyError):
        return None
