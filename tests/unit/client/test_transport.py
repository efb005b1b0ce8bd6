"""Connections, how long they are waited for, and when they are used again (bad lines: see ``matrix``)."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from airflow_provider_workflow.client import api, errors
from tests.unit.client.calls import SOME_ID
from tests.unit.client.conftest import MakeSender
from tests.unit.client.scripted import ScriptedServer, answer
from tests.unit.client.senders import Sender

INBOX = answer(200, {"id": SOME_ID, "status": "active"})
LEASE = answer(201, {"lease_id": "l", "results": []})


@pytest.fixture
def line(make_send: MakeSender, scripted: ScriptedServer) -> Sender:
    """A sender to the scripted server, with little patience."""
    return make_send(scripted.settings(timeout=0.4))


def fails(send: Sender, call: Any = None) -> errors.TransportError:
    with pytest.raises(errors.TransportError) as raised:
        send(call or api.lease_messages(SOME_ID))
    return raised.value


def slowly(*parts: bytes, pause: float = 0.02) -> Callable[[socket.socket], None]:
    def play(connection: socket.socket) -> None:
        for part in parts:
            connection.sendall(part)
            time.sleep(pause)

    return play


def test_a_name_that_does_not_resolve_means_nothing_was_sent(make_send: MakeSender, scripted: Any) -> None:
    error = fails(make_send(scripted.settings(base_url="http://nowhere.invalid")))
    assert not error.sent
    assert str(error).startswith("nowhere.invalid cannot be reached: ")


@pytest.fixture
def deaf_port() -> Iterator[int]:
    """A port whose queue is full: connecting to it never ends."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        queue = [socket.socket() for _ in range(3)]
        for each in queue:
            each.setblocking(False)
            each.connect_ex(listener.getsockname())
        yield listener.getsockname()[1]
        for each in queue:
            each.close()


def test_a_connection_that_never_stands_means_nothing_was_sent(
    make_send: MakeSender, scripted: ScriptedServer, deaf_port: int
) -> None:
    assert not fails(make_send(scripted.settings(base_url=f"http://127.0.0.1:{deaf_port}", timeout=0.1))).sent


def test_a_handshake_that_never_ends_is_a_time_limit(make_send: MakeSender, scripted: ScriptedServer) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"https://127.0.0.1:{silent.getsockname()[1]}"
        assert fails(make_send(scripted.settings(base_url=url, timeout=0.1))).timed_out


def test_a_kept_connection_that_has_died_may_have_had_its_effect(
    line: Sender, scripted: ScriptedServer
) -> None:
    scripted.answers = [INBOX, b""]
    line(api.get_inbox(SOME_ID))
    assert fails(line).sent
    assert len(scripted.requests) == 2
    assert scripted.connections == 1


def test_a_kept_connection_that_was_closed_in_time_is_replaced(
    line: Sender, scripted: ScriptedServer
) -> None:
    scripted.answers = [answer(200, {"id": SOME_ID, "status": "active"}, close=True), LEASE]
    line(api.get_inbox(SOME_ID))
    assert line(api.lease_messages(SOME_ID))["lease_id"] == "l"


def test_connections_are_kept_and_used_again(line: Sender, scripted: ScriptedServer) -> None:
    scripted.answers = [INBOX]
    for _ in range(5):
        line(api.get_inbox(SOME_ID))
    assert scripted.connections == 1


def test_each_call_has_all_of_its_time(make_send: MakeSender, scripted: ScriptedServer) -> None:
    send = make_send(scripted.settings(timeout=1.5))
    scripted.answers = [slowly(INBOX[:20], INBOX[20:], pause=0.6)]
    for _ in range(2):
        assert send(api.get_inbox(SOME_ID))["id"] == SOME_ID


def test_an_answer_of_chunks_leaves_its_connection_good(line: Sender, scripted: ScriptedServer) -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    chunks = b'4\r\n{"id\r\n18\r\n": "i", "status": "new"}\r\n0\r\n\r\n'
    scripted.answers = [b"HTTP/1.1 100 Continue\r\n\r\n" + head + chunks]
    for _ in range(2):
        assert line(api.get_inbox(SOME_ID)) == {"id": "i", "status": "new"}
    assert scripted.connections == 1


def test_cookies_of_the_service_are_not_kept(line: Sender, scripted: ScriptedServer) -> None:
    scripted.answers = [
        answer(200, {"id": SOME_ID, "status": "active"}, {"Set-Cookie": "session=someone; Path=/"})
    ]
    for _ in range(2):
        line(api.get_inbox(SOME_ID))
    assert b"ookie" not in scripted.requests[1]


def test_a_call_without_a_body_says_so(line: Sender, scripted: ScriptedServer) -> None:
    scripted.answers = [INBOX]
    line(api.pause_inbox(SOME_ID))
    assert b"content-length: 0\r\n" in scripted.requests[0].lower()
