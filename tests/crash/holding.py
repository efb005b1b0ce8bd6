"""Which processes hold leased messages: each writes it down, as an observer that the package tells."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

VARIABLE = "WORKFLOW_CRASH_HELD"
"""The folder with a file for each process that leased messages, named by its process id."""
PATH = f"{__name__}.observe"
HAND_OFF_SECONDS = 2.0
"""For so long after its lease a trigger holds it; then a task has it."""

_held: dict[str, set[str]] = {}


def observe(event: Any) -> None:
    """Write down how many messages this process holds after a call of the service."""
    if event.what == "leased" and event.count:
        _held[event.lease_id] = set(event.message_ids)
    elif event.what in ("acknowledged", "released") and event.error is None:
        message_ids = _held.pop(event.lease_id, set()) - set(event.message_ids)
        if message_ids:
            _held[event.lease_id] = message_ids
    else:
        return
    file = Path(os.environ[VARIABLE]) / str(os.getpid())
    file.with_suffix(".new").write_text(json.dumps([time.time(), sum(map(len, _held.values()))]))
    os.replace(file.with_suffix(".new"), file)


class Holding:
    """
    What processes wrote down.

    :param folder: where they do.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()

    def holds(self, pid: int, *, is_trigger: bool = False) -> bool:
        """Whether a process holds leased messages now."""
        try:
            at, number = json.loads((self.folder / str(pid)).read_text())
        except (FileNotFoundError, ValueError):
            return False
        return number > 0 and (not is_trigger or time.time() - at < HAND_OFF_SECONDS)

    def pids(self) -> list[int]:
        """The processes that hold messages, or ended while they did."""
        pids = [int(path.name) for path in self.folder.iterdir() if path.name.isdigit()]
        return [pid for pid in pids if self.holds(pid)]
