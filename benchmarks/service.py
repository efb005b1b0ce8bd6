"""The emulator in a process of its own, so that what it costs is not counted with its callers."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import requests

COMMAND = [sys.executable, "-m", "airflow_provider_workflow.emulator", "--port", "0"]


@dataclass(frozen=True)
class Service:
    """
    Where the emulator is.

    :param connection: the fields of an Airflow connection to it.
    :param pid: the process.
    """

    connection: dict[str, Any]
    pid: int

    def open_inbox(self, name: str, messages: int = 0) -> str:
        """Create an inbox that holds so many messages; its id."""
        payloads = [{"number": number} for number in range(messages)]
        self._control("messages", {"inbox": name, "payloads": payloads, "create": True})
        return str(self._shown(f"inboxes/{name}?messages=0")["inbox"]["id"])

    def put(self, inbox: str, *payloads: Any) -> None:
        """Put messages into an inbox that exists."""
        self._control("messages", {"inbox": inbox, "payloads": payloads})

    def count(self, operation: str) -> int:
        """The number of requests of an operation so far."""
        return int(self._shown("requests?limit=0")["counts"].get(operation, 0))

    def open_streams(self) -> int:
        """The number of open event streams."""
        return int(self._shown("requests?limit=0")["streams"])

    def token(self) -> str:
        """Have an access token issued."""
        credentials = (self.connection["login"], self.connection["password"])
        form = {"grant_type": "client_credentials", "scope": "external"}
        url = self.connection["extra"]["oauth_url"]
        answer = requests.post(url, data=form, auth=credentials, timeout=30)
        answer.raise_for_status()
        return str(answer.json()["access_token"])

    def _control(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        answer = requests.post(f"{self.connection['host']}/_emulator/{path}", json=body, timeout=30)
        answer.raise_for_status()
        return dict(answer.json())

    def _shown(self, path: str) -> dict[str, Any]:
        answer = requests.get(f"{self.connection['host']}/_emulator/{path}", timeout=30)
        answer.raise_for_status()
        return dict(answer.json())


@contextmanager
def service(inboxes: Iterable[str] = ()) -> Iterator[Service]:
    """
    Start the emulator, and stop it in the end.

    :param inboxes: names of inboxes to create first.
    """
    command = [*COMMAND, *(word for name in inboxes for word in ("--inbox", name))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Service(_connection(process), process.pid)
        finally:
            process.kill()


def _connection(process: subprocess.Popen[str]) -> dict[str, Any]:
    assert process.stdout is not None
    for line in process.stdout:
        if assigned := re.search(r"export AIRFLOW_CONN_WORKFLOW_DEFAULT=(.*)", line):
            (text,) = shlex.split(assigned[1])
            return dict(json.loads(text))
    raise RuntimeError("the emulator ended before it listened")
