"""The service in a process of its own."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import requests

Start = Callable[..., tuple["subprocess.Popen[str]", str]]


@pytest.fixture
def start() -> Iterator[Start]:
    """Start the emulator; return its process and its address, once it has printed it."""
    started: list[subprocess.Popen[str]] = []

    def run(*arguments: str) -> tuple[subprocess.Popen[str], str]:
        command = [sys.executable, "-m", "airflow_provider_workflow.emulator", "--port", "0", *arguments]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        started.append(process)
        assert process.stdout is not None
        first = process.stdout.readline()  # ends with the process, should that fail
        return process, first.rpartition(" ")[2].strip()

    yield run
    for process in started:
        process.kill()
        process.wait(10)
        assert process.stdout is not None
        process.stdout.close()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_says_what_to_do_next_and_ends_clean(start: Start, number: signal.Signals) -> None:
    process, address = start("--inbox", "orders", "--quarantine-after", "3", "--initializing-seconds", "9")
    summary = requests.get(f"{address}/_emulator/inboxes/orders", timeout=5).json()
    assert summary["inbox"]["status"] == "active"
    settings = requests.get(f"{address}/_emulator/settings", timeout=5).json()
    assert (settings["quarantine_after"], settings["initializing_seconds"]) == (3, 9)
    process.send_signal(number)
    assert process.wait(10) == 0
    assert process.stdout is not None
    greeting = process.stdout.read()
    connection = re.search("export AIRFLOW_CONN_WORKFLOW_DEFAULT='(.*)'", greeting)
    assert connection is not None
    assert json.loads(connection[1])["host"] == address


def test_what_was_answered_survives_kill_9(start: Start, tmp_path: Path) -> None:
    arguments = ("--state", str(tmp_path / "state.db"), "--inbox", "orders")
    process, address = start(*arguments)
    token = requests.post(
        f"{address}/oauth/token",
        data={"grant_type": "client_credentials", "scope": "external"},
        auth=("demo-client", "demo-secret"),
        timeout=5,
    ).json()["access_token"]
    headers = {"Authorization": f"Bearer {token}"}
    body = json.dumps({"inbox": "orders", "payloads": [{"n": n} for n in range(3)]})
    ids = requests.post(f"{address}/_emulator/messages", data=body, timeout=5).json()["ids"]
    summary = requests.get(f"{address}/_emulator/inboxes/orders", timeout=5).json()
    path = f"/trigger-inbox/v1/inboxes/{summary['inbox']['id']}/messages"
    lease = requests.post(
        f"{address}{path}/lease", json={"lease_limit": 2}, headers=headers, timeout=5
    ).json()
    ack = {"lease_id": lease["lease_id"], "message_ids": ids[:1]}
    assert requests.post(f"{address}{path}/ack", json=ack, headers=headers, timeout=5).status_code == 201
    os.kill(process.pid, signal.SIGKILL)
    process.wait(10)

    _, address = start(*arguments)
    summary = requests.get(f"{address}/_emulator/inboxes/orders", timeout=5).json()
    assert [each["status"] for each in summary["messages"]] == ["acked", "leased", "available"]
    ack = {"lease_id": lease["lease_id"]}
    acked = requests.post(f"{address}{path}/ack", json=ack, headers=headers, timeout=5)
    assert [each["id"] for each in acked.json()["results"]] == ids[1:2]
