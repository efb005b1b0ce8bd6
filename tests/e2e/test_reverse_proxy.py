"""The proxy in front of the receiver that docs/notifications.md shows, in a real nginx."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import requests

from tests.unit.documents import blocks

PAGE = "docs/notifications.md"
RECEIVER = "127.0.0.1:8766"
"""Where the page has it; the test's own listens elsewhere."""
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
    :param address: of the inbox, as the service is given it.
    :param home: where the proxy writes its logs.
    :param receiver: behind the proxy.
    """

    address: str
    home: Path
    receiver: subprocess.Popen[bytes]

    @property
    def logs(self) -> str:
        return "".join(path.read_text() for path in self.home.glob("*.log"))


@pytest.fixture
def proxied(tmp_path: Path) -> Iterator[Proxied]:
    receiver_port, port = free_port(), free_port()
    (shown,) = blocks(PAGE, "nginx")
    assert RECEIVER in shown
    shown = shown.replace(RECEIVER, f"127.0.0.1:{receiver_port}")
    (tmp_path / "nginx.conf").write_text(CONFIGURATION.format(home=tmp_path, port=port, shown=shown))
    command = [sys.executable, "-m", "airflow_provider_workflow.receiver", "--route", "shipments=dispatch"]
    command += ["--secret-file", str(tmp_path / "secret")]
    public = f"http://127.0.0.1:{port}/hooks"
    urls = subprocess.run(
        [*command, "--show-urls", public], check=True, capture_output=True, text=True
    ).stdout
    # Nobody is at that address of Airflow: that is no concern of whoever notifies.
    serve = ["--port", str(receiver_port), "--airflow-url", "http://127.0.0.1:9"]
    with (
        started([*command, *serve], receiver_port) as receiver,
        started(["nginx", "-p", str(tmp_path), "-c", str(tmp_path / "nginx.conf")], port),
    ):
        yield Proxied(urls.split()[-1], tmp_path, receiver)


def test_a_notification_passes_and_its_path_is_in_no_log_of_the_proxy(proxied: Proxied) -> None:
    secret = proxied.address.rpartition("/")[2]

    passed = requests.post(proxied.address, data="{}", timeout=30)
    assert (passed.status_code, passed.content) == (200, b"")
    assert requests.post(f"{proxied.address}x", timeout=30).status_code == 404
    assert requests.post(proxied.address, data="x" * 20_000, timeout=30).status_code == 413

    proxied.receiver.terminate()
    proxied.receiver.wait(PATIENCE_SECONDS)
    assert requests.post(proxied.address, data="{}", timeout=30).status_code == 502
    assert len(secret) > 40
    assert secret not in proxied.logs


def test_elsewhere_the_proxy_logs_as_it_always_does(proxied: Proxied) -> None:
    requests.get(proxied.address.replace("/hooks/", "/other/"), timeout=30)
    assert "/other/" in proxied.logs


@contextmanager
def started(command: list[str], port: int) -> Iterator[subprocess.Popen[bytes]]:
    """A process that listens at a port, ended with the context."""
    with subprocess.Popen(command) as process:
        try:
            deadline = time.monotonic() + PATIENCE_SECONDS
            while not listens(port):
                assert process.poll() is None, command
                assert time.monotonic() < deadline, command
                time.sleep(0.05)
            yield process
        finally:
            process.terminate()


def listens(port: int) -> bool:
    with socket.socket() as line:
        return line.connect_ex(("127.0.0.1", port)) == 0


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])
