"""What becomes of a request on a bad line, and whether the service may have taken it."""

from __future__ import annotations

import gzip
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

INBOX = answer(200, {"id": SOME_ID})
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


def test_nobody_listening_means_nothing_was_sent(
    make_send: MakeSender, scripted: ScriptedServer, closed_port: int
) -> None:
    error = fails(make_send(scripted.settings(base_url=f"http://127.0.0.1:{closed_port}")))
    assert not error.sent
    assert str(error).startswith(f"127.0.0.1:{closed_port} cannot be reached: ")


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
    send = make_send(scripted.settings(base_url=f"http://127.0.0.1:{deaf_port}", timeout=0.1))
    assert not fails(send).sent
    assert len(send.naps) == 4


def test_a_handshake_that_never_ends_means_nothing_was_sent(
    make_send: MakeSender, scripted: ScriptedServer
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"https://127.0.0.1:{silent.getsockname()[1]}"
        assert not fails(make_send(scripted.settings(base_url=url, timeout=0.1))).sent


def test_a_connection_cut_after_the_request_may_have_had_its_effect(
    line: Sender, scripted: ScriptedServer
) -> None:
    scripted.answers = [b""]
    assert fails(line).sent
    assert len(scripted.requests) == 1


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
    scripted.answers = [answer(200, {"id": SOME_ID}, close=True), LEASE]
    line(api.get_inbox(SOME_ID))
    assert line(api.lease_messages(SOME_ID))["lease_id"] == "l"


def test_connections_are_kept_and_used_again(line: Sender, scripted: ScriptedServer) -> None:
    scripted.answers = [INBOX]
    for _ in range(5):
        line(api.get_inbox(SOME_ID))
    assert scripted.connections == 1


def test_each_call_has_all_of_its_time(line: Sender, scripted: ScriptedServer) -> None:
    half = slowly(INBOX[:20], INBOX[20:], pause=0.25)
    scripted.answers = [half]
    for _ in range(2):
        assert line(api.get_inbox(SOME_ID))["id"] == SOME_ID


@pytest.mark.parametrize(
    "parts",
    [
        (b"H", b"T", b"T", b"P") + (b"/",) * 100,
        (b"HTTP/1.1 200 OK\r\n",) + (b"X-Header: again\r\n",) * 100,
        (b"HTTP/1.1 100 Continue\r\n\r\n",) * 100,
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",) + (b"1\r\n \r\n",) * 100,
        (b"HTTP/1.1 200 OK\r\n\r\n",) + (b" ",) * 100,
    ],
)
def test_an_answer_that_drips_ends_with_the_timeout(
    line: Sender, scripted: ScriptedServer, parts: tuple[bytes, ...]
) -> None:
    scripted.answers = [slowly(*parts)]
    error = fails(line)
    assert error.sent
    assert len(scripted.requests) == 1


@pytest.mark.parametrize(
    "reply",
    [
        b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n{"id\r\n4\r\n": 1\r\n1\r\n}\r\n0\r\n\r\n',
        b"HTTP/1.1 100 Continue\r\n\r\n" + answer(200, {"id": 1}),
        answer(200, gzip.compress(b'{"id": 1}'), {"Content-Encoding": "gzip"}),
        answer(200, b'\xef\xbb\xbf{"id": 1}'),
    ],
)
def test_answers_may_come_in_every_form_of_http(line: Sender, scripted: ScriptedServer, reply: bytes) -> None:
    scripted.answers = [reply]
    assert [line(api.get_inbox(SOME_ID)), line(api.get_inbox(SOME_ID))] == [{"id": 1}, {"id": 1}]
    assert scripted.connections == 1


@pytest.mark.parametrize(
    "reply",
    [
        b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n{"id',
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{}",
        answer(200, b"no gzip at all", {"Content-Encoding": "gzip"}),
        b"this is no HTTP\r\n\r\n",
        b"HTTP/1.1 2",
    ],
)
def test_an_answer_that_breaks_off_may_have_had_its_effect(
    line: Sender, scripted: ScriptedServer, reply: bytes
) -> None:
    scripted.answers = [lambda connection: connection.sendall(reply)]
    error = fails(line)
    assert error.sent
    assert str(error).startswith(f"the connection to 127.0.0.1:{scripted.port} broke off")


def test_a_big_answer_arrives_whole(make_send: MakeSender, scripted: ScriptedServer) -> None:
    scripted.answers = [answer(200, {"id": SOME_ID, "padding": "x" * 5_000_000})]
    assert len(make_send(scripted.settings())(api.get_inbox(SOME_ID))["padding"]) == 5_000_000


def test_cookies_of_the_service_are_not_kept(line: Sender, scripted: ScriptedServer) -> None:
    scripted.answers = [answer(200, {"id": SOME_ID}, {"Set-Cookie": "session=someone; Path=/"})]
    for _ in range(2):
        line(api.get_inbox(SOME_ID))
    assert b"ookie" not in scripted.requests[1]


def test_a_call_without_a_body_says_so(line: Sender, scripted: ScriptedServer) -> None:
    scripted.answers = [INBOX]
    line(api.pause_inbox(SOME_ID))
    assert b"content-length: 0\r\n" in scripted.requests[0].lower()
