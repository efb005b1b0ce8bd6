"""The server in its thread."""

from __future__ import annotations

import json
import socket
import threading
from pathlib import Path

import pytest
import requests

from airflow_provider_workflow.emulator.clock import ManualClock
from airflow_provider_workflow.emulator.server import EmulatorServer
from tests.unit.emulator.conftest import Api


def test_it_answers_as_soon_as_it_is_started_and_no_more_once_stopped() -> None:
    with EmulatorServer(client_id="me", quarantine_after=3) as server:
        assert requests.get(f"{server.base_url}/_emulator/requests", timeout=5).ok
        assert (server.client_id, server.store.settings.quarantine_after) == ("me", 3)
    with pytest.raises(OSError, match="refused"):
        socket.create_connection((server.host, server.port), timeout=1)


def test_it_stops_although_streams_are_open_and_requests_are_held() -> None:
    before = set(threading.enumerate())
    server = EmulatorServer(clock=ManualClock()).start()
    headers = {"Authorization": f"Bearer {server.token()}"}
    path = f"{server.base_url}/trigger-inbox/v1/inboxes/{server.open_inbox('orders')}/events"
    stream = requests.get(path, headers=headers, stream=True, timeout=5)
    server.stop()
    assert stream.content == b""
    assert set(threading.enumerate()) <= before


def test_a_port_that_is_taken_is_told(emulator: EmulatorServer) -> None:
    with pytest.raises(OSError, match="in use"):
        EmulatorServer(port=emulator.port).start()


def test_the_connection_is_what_airflow_reads_from_its_environment(emulator: EmulatorServer) -> None:
    connection = json.loads(emulator.connection_json())
    assert connection["conn_type"] == "workflow"
    assert connection["host"] == emulator.base_url
    assert (connection["login"], connection["password"]) == (emulator.client_id, emulator.client_secret)
    assert set(connection["extra"]) == {"oauth_url", "auth_url", "redirect_uri"}


def test_a_client_keeps_its_connection(emulator: EmulatorServer, api: Api) -> None:
    for _ in range(3):
        assert api("GET", "/inboxes").headers.get("Connection") != "close"


def test_it_starts_again_on_its_state_file(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    with EmulatorServer(state_path=path) as server:
        ids = server.put("orders", {"n": 1})
        token = server.token()
    with EmulatorServer(state_path=path) as server:
        lease = requests.post(
            f"{server.base_url}/trigger-inbox/v1/inboxes/{server.open_inbox('orders')}/messages/lease",
            headers={"Authorization": f"Bearer {token}"},
            timeout=5,
        )
    assert [each["id"] for each in lease.json()["results"]] == ids


def test_answers_are_dated_by_its_own_clock(emulator: EmulatorServer, clock: ManualClock) -> None:
    url = f"{emulator.base_url}/v1/workflow-templates"
    assert requests.get(url, timeout=5).headers["Date"] == "Thu, 01 Jan 2026 00:00:00 GMT"
    clock.advance(61)
    assert requests.get(url, timeout=5).headers["Date"] == "Thu, 01 Jan 2026 00:01:01 GMT"
    dated = "Fri, 02 Jan 2026 00:00:00 GMT"
    emulator.fault("status", operation="templates", status=503, headers={"Date": dated})
    assert requests.get(url, timeout=5).headers["Date"] == dated
