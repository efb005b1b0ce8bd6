"""The emulator as a program and as a server in a process."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from airflow_provider_workflow.emulator.clock import ManualClock
from airflow_provider_workflow.emulator.command_line import greeting
from airflow_provider_workflow.emulator.faults import Faults
from airflow_provider_workflow.emulator.server import EmulatorServer
from airflow_provider_workflow.hooks.workflow import WorkflowHook
from airflow_provider_workflow.pytest_plugin import WorkflowEmulator, workflow_emulator
from tests.unit.documents import command, lines_of
from tests.unit.emulator.conftest import Api

__all__ = ["workflow_emulator"]


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


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_says_what_to_do_next_and_ends_clean(start: Start, number: signal.Signals) -> None:
    process, address = start("--inbox", "orders")
    summary = requests.get(f"{address}/_emulator/inboxes/orders", timeout=5).json()
    assert summary["inbox"]["status"] == "active"
    process.send_signal(number)
    assert process.wait(10) == 0
    assert process.stdout is not None
    greeting = process.stdout.read()
    connection = re.search("export AIRFLOW_CONN_WORKFLOW_DEFAULT='(.*)'", greeting)
    assert connection is not None
    assert json.loads(connection[1])["host"] == address


@pytest.mark.slow
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


def refused(*arguments: str) -> str:
    """Start the emulator, which has to refuse to; return its sentence."""
    command = [sys.executable, "-m", "airflow_provider_workflow.emulator", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    return line


@pytest.mark.slow
def test_what_it_cannot_use_is_one_sentence(start: Start, tmp_path: Path) -> None:
    state = str(tmp_path / "state.db")
    _, address = start("--state", state)
    port = address.rpartition(":")[2]
    assert refused("--port", port).startswith(f"The emulator cannot start: cannot listen on port {port} of")
    assert "another emulator uses it" in refused("--port", "0", "--state", state)
    (tmp_path / "text").write_text("no database" * 100)
    assert "file is not a database" in refused("--port", "0", "--state", str(tmp_path / "text"))
    assert "unable to open" in refused("--port", "0", "--state", str(tmp_path / "nowhere" / "state.db"))
    assert "cannot listen on port 70000" in refused("--port", "70000")
    assert "cannot listen on port 0 of 192.0.2.1" in refused("--port", "0", "--host", "192.0.2.1")


@pytest.mark.slow
def test_a_reset_keeps_the_inboxes_of_the_command_line(start: Start) -> None:
    _, address = start("--inbox", "orders")
    for name in ("orders", "other"):
        body = json.dumps({"inbox": name, "create": True, "payloads": [{}]})
        assert requests.post(f"{address}/_emulator/messages", data=body, timeout=5).ok
    assert requests.post(f"{address}/_emulator/reset", timeout=5).ok
    assert requests.get(f"{address}/_emulator/inboxes/orders", timeout=5).json()["messages"] == []
    assert requests.get(f"{address}/_emulator/inboxes/other", timeout=5).status_code == 404


@pytest.mark.slow
def test_it_says_that_it_is_the_emulator_and_how_to_put_a_message(start: Start, tmp_path: Path) -> None:
    process, address = start("--inbox", "or ders")
    process.send_signal(signal.SIGINT)
    assert process.wait(10) == 0
    assert process.stdout is not None
    (put,) = re.findall(r"^  airflow-workflow (put .*)$", process.stdout.read(), re.MULTILINE)
    assert shlex.split(put) == ["put", "or ders", '{"hello": "world"}', "--url", address]
    assert "--create" in greeting(address, "{}", [])


REQUESTS = lines_of(command("docs/emulator.md", "curl"))


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl")
def test_every_request_is_answered(emulator: EmulatorServer) -> None:
    env = {**os.environ, "NO_PROXY": "*", "no_proxy": "*"}
    for line in REQUESTS:
        asked = line.replace("http://127.0.0.1:8765", emulator.base_url).replace("curl -s", "curl -sf")
        done = subprocess.run(["bash", "-c", asked], env=env, capture_output=True, text=True, timeout=30)
        assert done.returncode == 0, line
        assert isinstance(json.loads(done.stdout), dict)


OPERATIONS = frozenset({"ack", "lease"})


def meets(faults: Faults, operation: str = "lease", path: str = "/x/lease") -> bool:
    return faults.take(operation, path) is not None


def test_a_fault_meets_one_request_by_default() -> None:
    faults = Faults(OPERATIONS)
    faults.add(kind="drop", operation="lease")
    assert [meets(faults), meets(faults)] == [True, False]


def test_a_fault_passes_over_the_first_requests_and_ends() -> None:
    faults = Faults(OPERATIONS)
    faults.add(kind="drop", after=1, times=2)
    assert [meets(faults) for _ in range(5)] == [False, True, True, False, False]


def test_a_fault_without_number_never_ends() -> None:
    faults = Faults(OPERATIONS)
    faults.add(kind="drop", times=None)
    assert all(meets(faults) for _ in range(100))


@pytest.mark.parametrize(
    ("rule", "met"),
    [
        ({"operation": "ack"}, False),
        ({"path": "lease$"}, True),
        ({"path": "^/y"}, False),
        ({}, True),
    ],
)
def test_a_fault_meets_what_matches_all_that_it_names(rule: dict[str, Any], met: bool) -> None:
    faults = Faults(OPERATIONS)
    faults.add(kind="drop", **rule)
    assert meets(faults) is met


def test_faults_are_used_up_in_their_order() -> None:
    faults = Faults(OPERATIONS)
    first, second = faults.add(kind="status", status=500), faults.add(kind="status", status=502)
    assert [faults.take("x", "/"), faults.take("x", "/")] == [first, second]


def test_faults_are_listed_and_lifted() -> None:
    faults = Faults(OPERATIONS)
    first, second = faults.add(kind="drop"), faults.add(kind="slow")
    assert faults.rules == [first, second]
    faults.clear(first)
    assert faults.rules == [second]
    faults.clear()
    assert faults.rules == []


@pytest.mark.parametrize(
    ("rule", "field"),
    [
        ({}, "kind"),
        ({"kind": "explode"}, "kind"),
        ({"kind": "drop", "when": "never"}, "when"),
        ({"kind": "drop", "x": 1}, "x"),
    ],
)
def test_a_rule_that_makes_no_sense_is_refused(rule: dict[str, Any], field: str) -> None:
    with pytest.raises(ValueError, match=field):
        Faults(OPERATIONS).add(**rule)


def test_an_operation_that_nobody_has_is_refused() -> None:
    faults = Faults(OPERATIONS)
    with pytest.raises(ValueError, match="ack, lease"):
        faults.add(kind="drop", operation="acknowledge")
    with pytest.raises(ValueError, match="path"):
        faults.add(kind="drop", path="(")


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


pytest_plugins = ["pytester"]

REAL = {
    "conn_type": "workflow",
    "host": "http://real.invalid",
    "login": "production",
    "password": "production",
    "extra": {"oauth_url": "http://real.invalid/token"},
}


async def uses_the_emulator(hook: WorkflowHook, emulator: WorkflowEmulator) -> bool:
    """Whether tasks and triggers that use a hook get the inbox of the emulator."""
    emulator.open_inbox("orders")
    (inbox,) = hook.list_inboxes()
    async with hook.async_client() as client:
        assert client.settings == hook.settings
    return inbox.get("name") == "orders"


@pytest.fixture
def in_the_environment(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Environment variables that are set before the fixture is used."""
    for name, value in request.param.items():
        monkeypatch.setenv(name, value)


def environment(**variables: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("in_the_environment", [variables], indirect=True)


@pytest.mark.parametrize(
    "in_the_environment",
    [
        {"HTTP_PROXY": "http://127.0.0.1:9", "http_proxy": "http://127.0.0.1:9"},
        {"ALL_PROXY": "socks5://127.0.0.1:9", "NO_PROXY": "elsewhere.example"},
        {"HTTP_PROXY": "http://127.0.0.1:9", "no_proxy": "elsewhere.example"},
        {"HTTP_PROXY": "http://127.0.0.1:9", "NO_PROXY": "*"},
        {"REQUESTS_CA_BUNDLE": "/no/such/file"},
    ],
    indirect=True,
)
async def test_proxies_and_certificates_of_the_environment_are_not_used(
    in_the_environment: None, workflow_emulator: WorkflowEmulator
) -> None:
    assert await uses_the_emulator(WorkflowHook(), workflow_emulator)


@environment(AIRFLOW_CONN_WORKFLOW_DEFAULT=json.dumps(REAL), AIRFLOW_CONN_WORKFLOW_OTHER=json.dumps(REAL))
async def test_every_connection_leads_to_the_emulator(
    in_the_environment: None, workflow_emulator: WorkflowEmulator
) -> None:
    for conn_id in ("workflow_default", "workflow_other"):
        assert await uses_the_emulator(WorkflowHook(conn_id), workflow_emulator)


TEST = """
from airflow_provider_workflow.hooks.workflow import WorkflowHook

async def test_it(workflow_emulator):
    for hook in (WorkflowHook(), WorkflowHook("workflow_other")):
        assert WorkflowHook.get_connection(hook.workflow_conn_id).login == "production"
        assert hook.list_inboxes() == []
        async with hook.async_client() as client:
            assert client.settings.base_url == workflow_emulator.server.base_url
"""


def test_a_connection_of_a_secrets_backend_leads_to_it_too(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Airflow asks it before the environment, and keeps the first one for the whole process."""
    file = pytester.path / "connections.json"
    file.write_text(json.dumps(dict.fromkeys(("workflow_default", "workflow_other"), REAL)))
    for name in ("AIRFLOW__SECRETS__BACKEND", "AIRFLOW__WORKERS__SECRETS_BACKEND"):
        monkeypatch.setenv(name, "airflow.secrets.local_filesystem.LocalFilesystemBackend")
        monkeypatch.setenv(f"{name}_KWARGS", json.dumps({"connections_file_path": str(file)}))
    pytester.makepyfile(TEST)

    pytester.runpytest_subprocess("-o", "asyncio_mode=auto").assert_outcomes(passed=1)
