"""Connections that fail, at each point of an exchange: what the error says, and how often a call is sent."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from airflow_provider_workflow.client import errors
from tests.unit.client.calls import make
from tests.unit.client.matrix.cells import (
    ATTEMPTS,
    REPEATED_BY_AIOHTTP,
    Expected,
    Outcome,
    Service,
    by,
    check,
    good,
    repeated,
)
from tests.unit.client.scripted import Script, answer
from tests.unit.client.senders import SENDERS

PATIENCE = 0.5
"""Seconds of an attempt whose answer trickles."""


def reset(connection: socket.socket) -> None:
    """Cut a connection so that the other side is told of an error, and not of an end."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def cut_after(reply: bytes) -> Callable[[socket.socket], None]:
    return lambda connection: connection.sendall(reply)


def trickle(reply: bytes, drop: bytes) -> Callable[[socket.socket], None]:
    """An answer that goes on and on, without an end."""

    def play(connection: socket.socket) -> None:
        connection.sendall(reply)
        connection.settimeout(PATIENCE / 10)
        while True:
            try:
                if not connection.recv(1):
                    return
            except TimeoutError:
                connection.sendall(drop)

    return play


@dataclass(frozen=True)
class Line:
    """
    How a connection ends after the service read the request.

    :param broken: whether to aiohttp the connection broke before an answer began.
    """

    script: Script
    broken: bool = False


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
LINES: dict[str, Line] = {
    "reset": Line(reset, broken=True),
    "closed": Line(b"", broken=True),
    "cut in the status line": Line(cut_after(b"HTTP/1.1 2"), broken=True),
    "cut in the headers": Line(cut_after(HEAD), broken=True),
    "cut in a body of known length": Line(cut_after(HEAD + b"Content-Length: 100\r\n\r\n" + b'{"id": "')),
    "cut in a body of chunks": Line(cut_after(HEAD + b"Transfer-Encoding: chunked\r\n\r\n8\r\n" + b'{"id"')),
    "cut between two chunks": Line(cut_after(HEAD + b"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n")),
    "no HTTP at all": Line(cut_after(b"220 mail.example.com ESMTP\r\n\r\n")),
    "a chunk of no length": Line(
        cut_after(HEAD + b"Transfer-Encoding: chunked\r\n\r\nxyz\r\n{}\r\n0\r\n\r\n")
    ),
    "a body that is no gzip": Line(answer(200, b"no gzip", {"Content-Encoding": "gzip"})),
    "a header without an end": Line(cut_after(HEAD + b"X: " + b"x" * 100_000 + b"\r\n\r\n")),
    "a thousand headers": Line(cut_after(HEAD + b"X-Many: x\r\n" * 1000 + b"\r\n{}")),
}


def sent_by(kind: str, name: str, line: Line) -> int:
    """How often a call is sent; aiohttp sends some of them twice without asking."""
    again = kind == "aiohttp" and line.broken and make(name).method in REPEATED_BY_AIOHTTP
    return repeated(name) * (2 if again else 1)


@pytest.mark.parametrize("name", ["get_inbox", "lease_messages", "acknowledge_messages", "delete_inbox"])
@pytest.mark.parametrize("kind", SENDERS)
def test_a_call_whose_answer_broke_off_may_have_had_its_effect(
    kind: str, name: str, service: Service
) -> None:
    lost = f"the connection to 127.0.0.1:{service.port} was lost: "
    found = {}
    for title, line in LINES.items():
        outcome = service.play(kind, name, line.script)
        # To http.client, headers that break off are an answer without a body.
        is_cut_head = kind == "requests" and title == "cut in the headers"
        says = ("has a body that is not JSON",) if is_cut_head else (lost,)
        due = Expected(errors.TransportError, says, sent_by(kind, name, line), has={"sent": True})
        found[title] = due.complaint(outcome)
    check(found)


TRICKLED_HEADS: dict[str, Script] = {
    "of the status line": trickle(b"HTTP/1.1 200 O", b"K"),
    "of headers": trickle(HEAD, b"X-Again: x\r\n"),
    "of interim answers": trickle(b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
}
"""Only aiohttp limits the time of the head of an answer; requests limits each wait for data."""
TRICKLES: dict[str, Script] = {
    "of a body of known length": trickle(HEAD + b"Content-Length: 1000000\r\n\r\n{", b" "),
    "of chunks": trickle(HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n"),
    "of a body until the end": trickle(HEAD + b"\r\n", b" "),
    "of nothing": trickle(b"", b""),
}


def trickled(kind: str, name: str, script: Script, service: Service) -> str:
    """What is wrong with a call whose first answer trickles for ever, and whose second is good."""
    outcome = service.play(kind, name, script, good(name), timeout=PATIENCE)
    if repeated(name) > 1:
        well = outcome.error is None and outcome.sent == 2
        return "" if well else f"sent {outcome.sent} times; {outcome.error!r}"
    says = (f"no complete answer from 127.0.0.1:{service.port} within {PATIENCE:g} s",)
    return Expected(errors.TransportError, says, 1, has={"sent": True}).complaint(outcome)


def test_an_attempt_whose_answer_trickled_for_ever_is_followed_by_another_in_a_task(service: Service) -> None:
    check({"of chunks": trickled("requests", "acknowledge_messages", TRICKLES["of chunks"], service)})


@pytest.mark.parametrize("part", TRICKLED_HEADS)
def test_the_limit_of_an_attempt_in_a_trigger_holds_in_the_head_of_an_answer(
    part: str, service: Service
) -> None:
    check({part: trickled("aiohttp", "lease_messages", TRICKLED_HEADS[part], service)})


@pytest.mark.parametrize("part", TRICKLES)
@pytest.mark.parametrize("kind", SENDERS)
def test_the_limit_of_an_attempt_holds_in_each_part_of_a_body(kind: str, part: str, service: Service) -> None:
    check({part: trickled(kind, "lease_messages", TRICKLES[part], service)})


@pytest.mark.parametrize("name", ["get_inbox", "lease_messages"])
@pytest.mark.parametrize("kind", SENDERS)
def test_a_call_that_found_nobody_was_not_sent_and_is_tried_again(
    kind: str, name: str, service: Service, closed_port: int
) -> None:
    whom = f"127.0.0.1:{closed_port}"
    outcome = service.play(kind, name, b"", base_url=f"http://{whom}")
    due = Expected(errors.TransportError, (f"{whom} cannot be reached: ",), 0, has={"sent": False})
    check({"nobody listens": due.complaint(outcome) or tried(outcome)})


def tried(outcome: Outcome) -> str:
    return (
        "" if len(outcome.naps) == by(outcome.kind, ATTEMPTS) - 1 else f"tried {len(outcome.naps) + 1} times"
    )


@pytest.mark.parametrize("kind", SENDERS)
def test_without_a_token_endpoint_nothing_is_sent_whose_token_is_missing(
    kind: str, service: Service, closed_port: int
) -> None:
    found = {}
    for title, changes, script, says in (
        ("nobody listens", {"token_url": f"http://127.0.0.1:{closed_port}/t"}, None, "cannot be reached"),
        ("reset", {}, reset, "was lost"),
        ("half an answer", {}, LINES["cut in a body of known length"].script, "was lost"),
        ("an HTML page", {}, answer(200, b"<html>", {"Content-Type": "text/html"}), "not JSON (text/html"),
        ("no token", {}, answer(200, {"token_type": "Bearer"}), "without a usable access_token"),
        ("a token of two lines", {}, answer(200, {"access_token": "a\r\nX: y"}), "usable access_token"),
    ):
        settings: Any = changes
        outcome = service.play(kind, "lease_messages", b"", token=script, warm=False, **settings)
        kind_of = errors.AuthenticationError if "usable" in says else errors.TransportError
        asked = 0 if changes else 1 if kind_of is errors.AuthenticationError else ATTEMPTS
        found[title] = Expected(kind_of, (says,), 0, asked).complaint(outcome)
    check(found)


@pytest.mark.parametrize("name", ["get_inbox", "lease_messages", "app_token"])
def test_a_call_succeeds_in_a_task_once_the_line_is_good_again(name: str, service: Service) -> None:
    bad = (answer(503, b""), answer(429, b"", {"Retry-After": "1"}), answer(200, b"<html>"), answer(500, b""))
    outcome = service.play("requests", name, *bad, good(name))
    if repeated(name) == 1:
        assert isinstance(outcome.error, errors.ServerError)
        assert outcome.sent == 1
    else:
        assert outcome.error is None
        assert outcome.sent == len(bad) + 1
