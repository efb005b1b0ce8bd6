"""The emulator in a process of its own, so that what it costs is not counted with its callers."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import requests

COMMAND = [sys.executable, "-m", "airflow_provider_workflow.emulator", "--port", "0"]
STOP_SECONDS = 20


@dataclass(frozen=True)
class Service:
    """
    Where the emulator is.

    :param connection: the fields of an Airflow connection to it.
    """

    connection: dict[str, Any]

    @property
    def base_url(self) -> str:
        return str(self.connection["host"])

    def open_inbox(self, name: str, messages: int = 0) -> str:
        """Create an inbox that holds so many messages; its id."""
        opened = self._control("inboxes", {"name": name})
        payloads = [{"number": number} for number in range(messages)]
        self._control("messages", {"inbox": name, "payloads": payloads})
        return str(opened["id"])

    def token(self) -> str:
        """Have an access token issued."""
        return str(self._control("tokens", {})["access_token"])

    def _control(self, path: str, given: dict[str, Any]) -> dict[str, Any]:
        answer = requests.post(f"{self.base_url}/_emulator/{path}", json=given, timeout=30)
        answer.raise_for_status()
        return dict(answer.json())


@contextmanager
def service() -> Iterator[Service]:
    """Start the emulator, and stop it in the end."""
    with subprocess.Popen(COMMAND, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Service(_connection(process))
        finally:
            process.terminate()
            process.wait(STOP_SECONDS)


def _connection(process: subprocess.Popen[str]) -> dict[str, Any]:
    assert process.stdout is not None
    for line in process.stdout:
        if found := re.search(r"export AIRFLOW_CONN_WORKFLOW_DEFAULT=(.*)", line):
            (text,) = shlex.split(found[1])
            return dict(json.loads(text))
    raise RuntimeError("the emulator ended before it listened")
