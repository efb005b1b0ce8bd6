"""Counts, inside the process that runs the triggers, what cannot be seen from outside."""

from __future__ import annotations

import asyncio
import gc
import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
from airflow.triggers.base import BaseEventTrigger, TriggerEvent

LOOK_SECONDS = 2.0


class ProbeTrigger(BaseEventTrigger):
    """
    Writes its counts to a file that is named by the id of its process, again and again; never fires.

    :param folder: of the files.
    """

    def __init__(self, folder: str) -> None:
        super().__init__()
        self.folder = folder

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return f"{type(self).__module__}.{type(self).__qualname__}", {"folder": self.folder}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        file = Path(self.folder, str(os.getpid()))
        while True:
            new_file = file.with_suffix(".new")
            new_file.write_text(json.dumps(counts_of_process()))
            new_file.replace(file)
            await asyncio.sleep(LOOK_SECONDS)
        yield


def counts_of_process() -> dict[str, int]:
    """What there is in this process now."""
    objects = gc.get_objects()
    sessions = [object_ for object_ in objects if type(object_) is aiohttp.ClientSession]
    return {
        "sessions": sum(not session.closed for session in sessions),
        "asyncio tasks": len(asyncio.all_tasks()),
        "objects": len(objects),
    }


def read(folder: Path, pid: int) -> dict[str, int]:
    """The last counts of a process; none where nothing is probing in it."""
    file = folder / str(pid)
    return dict(json.loads(file.read_text())) if file.exists() else {}
