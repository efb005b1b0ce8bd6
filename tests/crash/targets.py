"""Breaks the DAGs that messages start, and mends them, by rewriting their file."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path

import requests

from tools.airflow_api import AirflowAPI, AirflowAPIError

FILE = "targets.py"
DAG_IDS = ("handle_sensor", "handle_notice")
WHOLE_INTERVALS = (4.0, 8.0)
BROKEN_SECONDS = (15.0, 25.0)
"""Airflow notices a change of the file within about 10 s."""
FIRST_SECONDS = 5.0

BREAKS: dict[str, Callable[[str], str]] = {
    "a required param": lambda text: text.replace("PARAMS = WHOLE", "PARAMS = REQUIRED"),
    "an import error": lambda text: f"{text}\nraise RuntimeError('broken')\n",
}


class Targets:
    """
    :param folder: of the DAG files.
    :param chance: chooses when, and in which order, the kinds of break come.
    :param now: when this begins, in monotonic seconds.
    :param interval: mean seconds between two acts of sabotage; the targets work for some of them.
    """

    def __init__(self, folder: Path, chance: random.Random, now: float, interval: float) -> None:
        self._file = folder / FILE
        self._whole = self._file.read_text()
        self._random = chance
        self._kinds = chance.sample(sorted(BREAKS), len(BREAKS))
        self._turn_at = now + FIRST_SECONDS
        self._is_broken = False
        self._interval = interval

    def turn(self, now: float) -> str | None:
        """Break or mend where it is time to; how they were broken, if they were."""
        if now < self._turn_at:
            return None
        if self._is_broken:
            self.mend()
            self._turn_at = now + self._random.uniform(*WHOLE_INTERVALS) * self._interval
            return None
        kind = self._kinds.pop(0)
        self._kinds.append(kind)
        self._write(BREAKS[kind](self._whole))
        self._is_broken = True
        self._turn_at = now + self._random.uniform(*BROKEN_SECONDS)
        return kind

    def mend(self) -> None:
        """Restore the file, where it is broken."""
        if self._is_broken:
            self._write(self._whole)
            self._is_broken = False

    def _write(self, text: str) -> None:
        # At once: a file that is read half written would be broken in a way of its own.
        new = self._file.with_suffix(".new")
        new.write_text(text)
        os.replace(new, self._file)


def are_whole(api: AirflowAPI) -> bool:
    """Whether Airflow knows them as they were at first."""
    try:
        if api.import_errors():
            return False
        params = [api.request("GET", f"dags/{dag_id}/details")["params"] for dag_id in DAG_IDS]
        return all("need" not in text for text in params)
    except (requests.RequestException, AirflowAPIError):
        return False
