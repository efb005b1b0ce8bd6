"""The emulator as a process that can be killed, and what is asked of it from outside."""

from __future__ import annotations

import contextlib
import json
import time
from datetime import datetime
from typing import Any

import requests

NAME = "emulator"
SECONDS_TO_ANSWER = 120.0
LATENCY_SECONDS = 0.5
"""How late leases and acknowledgements are answered: the moments in which a kill could hurt get longer."""

FAULTS = {
    "lease: answers lost": {"kind": "drop", "operation": "lease", "when": "after", "times": 3},
    "ack: answers lost": {"kind": "drop", "operation": "ack", "when": "after", "times": 3},
    "ack: requests lost": {"kind": "drop", "operation": "ack", "when": "before", "times": 3},
    "429 with Retry-After": {"kind": "status", "status": 429, "headers": {"Retry-After": "3"}, "times": 5},
    "503": {"kind": "status", "status": 503, "times": 8},
    "tokens: 500": {"kind": "status", "status": 500, "operation": "token", "times": 3},
}
"""What goes wrong with the service itself, each for some requests."""


class Service:
    """
    An emulator that keeps its state in a file.

    :param port: where it listens, each time that it is started.
    """

    def __init__(self, port: int) -> None:
        self.port = port
        self.url = f"http://127.0.0.1:{port}"
        self._session = requests.Session()
        self._session.trust_env = False

    def arguments(self, state: str, inboxes: list[str]) -> list[str]:
        """Arguments of ``python -m airflow_provider_workflow.emulator``."""
        words = ["--port", str(self.port), "--state", state]
        return words + [word for inbox in inboxes for word in ("--inbox", inbox)]

    def connection_json(self) -> str:
        """Value of ``AIRFLOW_CONN_WORKFLOW_DEFAULT``."""
        return json.dumps(
            {
                "conn_type": "workflow",
                "host": self.url,
                "login": "demo-client",
                "password": "demo-secret",
                "extra": {"oauth_url": f"{self.url}/oauth/token/"},
            }
        )

    def slow_down(self) -> None:
        """Answer leases and acknowledgements late from now on, until the process ends."""
        for operation in ("lease", "ack"):
            slow = {"kind": "slow", "operation": operation, "when": "after", "times": None}
            self._until_answered("POST", "faults", {**slow, "seconds": LATENCY_SECONDS})

    def fault(self, name: str) -> None:
        """Let some of the next requests go wrong; nothing where the service is away anyway."""
        with contextlib.suppress(requests.ConnectionError, requests.Timeout):
            answer = self._session.post(f"{self.url}/_emulator/faults", json=FAULTS[name], timeout=5)
            answer.raise_for_status()

    def put(self, inbox: str, message_id: str, payload: Any) -> None:
        """Let a message arrive, however often the service is killed meanwhile."""
        body = {"inbox": inbox, "ids": [message_id], "payloads": [payload]}
        answer = self._until_answered("POST", "messages", body)
        assert not answer["dropped"], f"{inbox} dropped {message_id}: {answer['note']}"

    def summary(self, inbox: str) -> dict[str, Any]:
        """Everything about an inbox."""
        return self._until_answered("GET", f"inboxes/{inbox}")

    def expire_leases(self, inbox: str, longer_than: float) -> int:
        """
        Let the leases of an inbox end that would last longer than this.

        :param longer_than: seconds from now.
        :return: how many.
        """
        expired_leases = 0
        for lease in self.summary(inbox)["leases"]:
            until = datetime.fromisoformat(lease["leased_until"]).timestamp()
            if until - time.time() > longer_than:
                lease_of_inbox = {"inbox": inbox, "lease_id": lease["lease_id"]}
                expired_leases += self._until_answered("POST", "leases/expire", lease_of_inbox)["expired"]
        return expired_leases

    def _until_answered(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        deadline = time.monotonic() + SECONDS_TO_ANSWER
        while True:
            try:
                answer = self._session.request(method, f"{self.url}/_emulator/{path}", json=body, timeout=5)
                answer.raise_for_status()
                return dict(answer.json())
            except (requests.ConnectionError, requests.Timeout):
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.2)
