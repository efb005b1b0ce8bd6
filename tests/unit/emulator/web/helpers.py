"""What the tests of faults share."""

from __future__ import annotations

import socket
from urllib.parse import urlsplit

from airflow_provider_workflow.emulator.server import EmulatorServer
from tests.unit.emulator.conftest import Api

GET = "GET /trigger-inbox/v1/inboxes HTTP/1.1\r\nHost: localhost\r\nAuthorization: {}\r\n\r\n"


def leases(emulator: EmulatorServer) -> int:
    return int(emulator.summary("orders")["counters"]["leases"])


def raw(emulator: EmulatorServer, api: Api) -> socket.socket:
    """Ask for the list of inboxes over a bare socket."""
    address = urlsplit(emulator.base_url)
    connection = socket.create_connection((str(address.hostname), int(address.port or 0)), timeout=5)
    ask(connection, api)
    return connection


def ask(connection: socket.socket, api: Api) -> None:
    connection.sendall(GET.format(api.session.headers["Authorization"]).encode())


def read_all(connection: socket.socket) -> bytes:
    data = b""
    with connection:
        while piece := connection.recv(65536):
            data += piece
    return data
