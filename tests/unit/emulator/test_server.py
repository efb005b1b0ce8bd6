"""The emulator as a program and as a server in a process."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from airflow_provider_workflow.emulator.__main__ import greeting
from airflow_provider_workflow.emulator.rules.errors import ServiceError
from airflow_provider_workflow.emulator.server import EmulatorServer
from tests.unit.documents import command, lines_of

Start = Callable[..., tuple["subprocess.Popen[str]", str]]


@pytest.fixture
def start() -> Iterator[Start]:
    """Start the emulator; return its process and its address, once it has printed it."""
    processes: list[subprocess.Popen[str]] = []

    def run(*arguments: str) -> tuple[subprocess.Popen[str], str]:
        command = [sys.executable, "-m", "airflow_provider_workflow.emulator", "--port", "0", *arguments]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        processes.append(process)
        assert process.stdout is not None
        first = process.stdout.readline()  # ends with the process, should that fail
        return process, first.rpartition(" ")[2].strip()

    yield run
    for process in processes:
        process.kill()
        process.wait(10)
        assert process.stdout is not None
        process.stdout.close()


def call(url: str, body: Any = None, **options: Any) -> Any:
    """Send a request, as POST where it has a body; return the answer."""
    answer = requests.request("GET" if body is None else "POST", url, json=body, timeout=5, **options)
    assert answer.ok, answer.text
    return answer.json()


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_says_what_to_do_next_keeps_its_inboxes_and_ends_clean(
    start: Start, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_HOME", "/nowhere")
    process, address = start("--inbox", "or ders")
    for name in ("or ders", "other"):
        call(f"{address}/_emulator/messages", {"inbox": name, "create": True, "payloads": [{}]})
    call(f"{address}/_emulator/reset", {})
    summary = call(f"{address}/_emulator/inboxes/or ders")
    assert (summary["inbox"]["status"], summary["messages"]) == ("active", [])
    assert requests.get(f"{address}/_emulator/inboxes/other", timeout=5).status_code == 404

    process.send_signal(number)
    assert process.wait(10) == 0
    assert process.stdout is not None
    output = process.stdout.read()
    connection = re.search("export AIRFLOW_CONN_WORKFLOW_DEFAULT='(.*)'", output)
    assert connection is not None
    assert json.loads(connection[1])["host"] == address
    (put_line,) = re.findall(r"^  airflow-workflow (put .*)$", output, re.MULTILINE)
    assert shlex.split(put_line) == ["put", "or ders", '{"name": "Ada"}', "--url", address]
    assert "--create" in greeting(address, "{}", [])


@pytest.mark.slow
def test_what_was_answered_survives_kill_9(start: Start, tmp_path: Path) -> None:
    arguments = ("--state", str(tmp_path / "state.db"), "--inbox", "orders")
    process, address = start(*arguments)
    grant = {"grant_type": "client_credentials", "scope": "external"}
    answer = requests.post(
        f"{address}/oauth/token", data=grant, auth=("demo-client", "demo-secret"), timeout=5
    )
    headers = {"Authorization": f"Bearer {answer.json()['access_token']}"}
    ids = call(f"{address}/_emulator/messages", {"inbox": "orders", "payloads": [1, 2, 3]})["ids"]
    inbox_id = call(f"{address}/_emulator/inboxes/orders")["inbox"]["id"]
    path = f"/trigger-inbox/v1/inboxes/{inbox_id}/messages"
    lease = call(f"{address}{path}/lease", {"lease_limit": 2}, headers=headers)
    ack = {"lease_id": lease["lease_id"]}
    call(f"{address}{path}/ack", {**ack, "message_ids": ids[:1]}, headers=headers)
    os.kill(process.pid, signal.SIGKILL)
    process.wait(10)

    _, address = start(*arguments)
    summary = call(f"{address}/_emulator/inboxes/orders")
    assert [message["status"] for message in summary["messages"]] == ["acked", "leased", "available"]
    acked = call(f"{address}{path}/ack", ack, headers=headers)
    assert [result["id"] for result in acked["results"]] == ids[1:2]


def refusal_of(*arguments: str) -> str:
    """Start the emulator, which has to refuse to; return its sentence."""
    command = [sys.executable, "-m", "airflow_provider_workflow.emulator", *arguments]
    process = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (process.returncode, process.stdout) == (1, "")
    (line,) = process.stderr.splitlines()
    return line


@pytest.mark.slow
def test_what_it_cannot_use_is_one_sentence(start: Start, tmp_path: Path) -> None:
    state = str(tmp_path / "state.db")
    _, address = start("--state", state)
    port = address.rpartition(":")[2]
    error = refusal_of("--port", port)
    assert error.startswith(f"The emulator cannot start: cannot listen on port {port} of")
    assert "in use" in error
    assert "another emulator uses it" in refusal_of("--port", "0", "--state", state)
    (tmp_path / "text").write_text("no database" * 100)
    assert "file is not a database" in refusal_of("--port", "0", "--state", str(tmp_path / "text"))
    assert "unable to open" in refusal_of("--port", "0", "--state", str(tmp_path / "nowhere" / "state.db"))
    assert "cannot listen on port 70000" in refusal_of("--port", "70000")
    assert "cannot listen on port 0 of 192.0.2.1" in refusal_of("--port", "0", "--host", "192.0.2.1")
    assert "cannot start: --inbox: name: must have" in refusal_of("--port", "0", "--inbox", "")


@pytest.mark.parametrize("name", ["", " ", "x" * 101])
def test_an_inbox_has_a_name_that_the_service_accepts(emulator: EmulatorServer, name: str) -> None:
    for use in (emulator.open_inbox, lambda name: EmulatorServer(inboxes=[name])):
        with pytest.raises(ServiceError, match="name: must have 1 to 100 characters, one of them not blank"):
            use(name)
    assert emulator.open_inbox("x" * 100)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl")
def test_every_request_is_answered(emulator: EmulatorServer) -> None:
    env = {**os.environ, "NO_PROXY": "*", "no_proxy": "*"}
    for line in lines_of(command("docs/emulator.md", "curl")):
        local_command = line.replace("http://127.0.0.1:8765", emulator.base_url).replace(
            "curl -s", "curl -sf"
        )
        process = subprocess.run(
            ["bash", "-c", local_command], env=env, capture_output=True, text=True, timeout=30
        )
        assert process.returncode == 0, line
        assert isinstance(json.loads(process.stdout), dict)


pytest_plugins = ["pytester"]

REAL = {
    "conn_type": "workflow",
    "host": "http://real.invalid",
    "login": "production",
    "password": "production",
    "extra": {"oauth_url": "http://real.invalid/token"},
}


TEST = """
from airflow_provider_workflow.hooks.workflow import WorkflowHook

async def test_it(workflow_emulator):
    for hook in (WorkflowHook(), WorkflowHook("workflow_other")):
        assert WorkflowHook.get_connection(hook.workflow_conn_id).login == "production"
        assert hook.list_inboxes() == []
        async with hook.async_client() as client:
            assert client.settings.base_url == workflow_emulator.base_url
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
