"""The proxy in front of the API server that docs/notifications.md shows, in a real nginx."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import requests
from cryptography.fernet import Fernet

from airflow_provider_workflow.assets import uri_of
from airflow_provider_workflow.notifications import notification_url
from tests.unit.documents import blocks

PAGE = "docs/notifications.md"
API_SERVER = "127.0.0.1:8080"
"""Where the page has it; the test's own listens elsewhere."""
ROOT = Path(__file__).parents[2]
PATIENCE_SECONDS = 60
CONFIGURATION = """
daemon off;
user root;
pid {home}/pid;
error_log {home}/error.log;
events {{}}
http {{
    access_log {home}/access.log;
    client_body_temp_path {home}/body;
    proxy_temp_path {home}/proxy;
    fastcgi_temp_path {home}/fastcgi;
    uwsgi_temp_path {home}/uwsgi;
    scgi_temp_path {home}/scgi;
    server {{
        listen 127.0.0.1:{port};
        {shown}
    }}
}}
"""

pytestmark = pytest.mark.skipif(not shutil.which("nginx"), reason="nginx is not installed")


@dataclass(frozen=True)
class Proxied:
    """
    :param url: of the proxy.
    :param home: where the proxy and the server behind it write their logs.
    :param server: the notification endpoint.
    """

    url: str
    home: Path
    server: subprocess.Popen[bytes]

    @property
    def logs(self) -> str:
        return "".join(path.read_text() for path in self.home.glob("*.log"))

    @property
    def events(self) -> list[str]:
        file = self.home / "events"
        return file.read_text().split() if file.exists() else []


@pytest.fixture
def proxied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxied]:
    server_port, port = free_port(), free_port()
    (shown,) = blocks(PAGE, "nginx")
    assert API_SERVER in shown
    shown = shown.replace(API_SERVER, f"127.0.0.1:{server_port}")
    (tmp_path / "nginx.conf").write_text(CONFIGURATION.format(home=tmp_path, port=port, shown=shown))
    url = f"http://127.0.0.1:{port}"
    monkeypatch.setenv("AIRFLOW__WORKFLOW__NOTIFICATION_BASE_URL", url)
    monkeypatch.setenv("AIRFLOW__CORE__FERNET_KEY", Fernet.generate_key().decode())
    endpoint = [
        sys.executable,
        str(ROOT / "tests/e2e/endpoint.py"),
        str(server_port),
        str(tmp_path / "events"),
    ]
    with (
        started(endpoint, server_port, tmp_path / "server.log") as server,
        started(
            ["nginx", "-p", str(tmp_path), "-c", str(tmp_path / "nginx.conf")], port, tmp_path / "out.log"
        ),
    ):
        yield Proxied(url, tmp_path, server)


def test_a_notification_passes_and_the_secret_part_of_its_url_is_in_no_log(proxied: Proxied) -> None:
    inboxes = ["shipments", "a/b c%2F?#\u00e9'\"", ".."]
    urls = [notification_url(inbox, "workflow_default") for inbox in inboxes]

    answers = [requests.post(url, data="{}", timeout=30) for url in urls]
    assert {(each.status_code, each.content) for each in answers} == {(200, b"")}
    until(lambda: len(proxied.events) == len(inboxes))
    assert sorted(proxied.events) == sorted(uri_of(inbox, "workflow_default") for inbox in inboxes)

    assert requests.post(f"{urls[0]}x", timeout=30).status_code == 404
    assert requests.post(urls[0], data="x" * 70_000, timeout=30).status_code == 413
    assert "/workflow/notify/workflow_default/shipments/hidden" in proxied.logs
    proxied.server.terminate()
    proxied.server.wait(PATIENCE_SECONDS)
    assert requests.post(urls[0], data="{}", timeout=30).status_code == 502
    assert [url for url in urls if url.rpartition("/")[2] in proxied.logs] == []


def test_nothing_else_of_the_api_server_can_be_reached(proxied: Proxied) -> None:
    (proxied.home / "server.log").write_text("")
    paths = ("/", "/api/v2/version", "/workflow/api/connections", "/workflow/notify/../api", "/docs")

    assert {requests.get(f"{proxied.url}{path}", timeout=30).status_code for path in paths} == {404}
    assert "GET" not in (proxied.home / "server.log").read_text()
    assert "/api/v2/version" in (proxied.home / "access.log").read_text()


@contextmanager
def started(command: list[str], port: int, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that listens at a port, ended with the context."""
    env = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
    with log.open("ab") as file, subprocess.Popen(command, env=env, stdout=file, stderr=file) as process:
        try:
            until(lambda: process.poll() is not None or listens(port))
            assert process.poll() is None, log.read_text()
            yield process
        finally:
            process.terminate()


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def listens(port: int) -> bool:
    with socket.socket() as line:
        return line.connect_ex(("127.0.0.1", port)) == 0


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])
