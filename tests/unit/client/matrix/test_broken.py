"""Answers that break off at any point, or are none: what the error says, and how often a call is sent."""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Callable
from typing import Any

import pytest

from airflow_provider_workflow.client import errors
from tests.unit.client.calls import make
from tests.unit.client.matrix.cells import (
    ATTEMPTS,
    CALLS,
    GOOD,
    INBOX,
    MESSAGE,
    PAGE,
    REPEATED_BY_AIOHTTP,
    STEP,
    STEPS,
    Expected,
    Outcome,
    Service,
    attempts_of,
    by,
    check,
)
from tests.unit.client.scripted_server import Script, answer
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
    """An answer that goes on for much longer than anybody should wait."""

    def play(connection: socket.socket) -> None:
        connection.sendall(reply)
        connection.settimeout(PATIENCE / 10)
        for _ in range(300):
            try:
                if not connection.recv(1):
                    return
            except TimeoutError:
                connection.sendall(drop)

    return play


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
BROKEN: dict[str, Script] = {
    "reset": reset,
    "closed": b"",
    "cut in the status line": cut_after(b"HTTP/1.1 2"),
    "cut in the headers": cut_after(HEAD),
}
"""To aiohttp these break before an answer begins."""
LINES: dict[str, Script] = {
    **BROKEN,
    "cut in a body of known length": cut_after(HEAD + b"Content-Length: 100\r\n\r\n" + b'{"id": "'),
    "cut in a body of chunks": cut_after(CHUNKED + b'8\r\n{"id"'),
    "cut between two chunks": cut_after(CHUNKED + b"1\r\n{\r\n"),
    "no HTTP at all": cut_after(b"220 mail.example.com ESMTP\r\n\r\n"),
    "a chunk of no length": cut_after(CHUNKED + b"xyz\r\n{}\r\n0\r\n\r\n"),
    "a body that is no gzip": answer(200, b"no gzip", {"Content-Encoding": "gzip"}),
    "a header without an end": cut_after(HEAD + b"X: " + b"x" * 100_000 + b"\r\n\r\n"),
    "a thousand headers": cut_after(HEAD + b"X-Many: x\r\n" * 1000 + b"\r\n{}"),
}
"""How a connection ends after the service read the request."""


def requests_of(kind: str, name: str, title: str) -> int:
    """How often a call is sent; aiohttp sends some of them twice without asking."""
    again = kind == "aiohttp" and title in BROKEN and make(name).method in REPEATED_BY_AIOHTTP
    return attempts_of(name) * (2 if again else 1)


@pytest.mark.parametrize("name", ["get_inbox", "lease_messages", "acknowledge_messages", "delete_inbox"])
@pytest.mark.parametrize("kind", SENDERS)
@pytest.mark.parametrize("host", ["127.0.0.1", "service.invalid"], ids=["directly", "behind a proxy"])
def test_a_call_whose_answer_broke_off_may_have_had_its_effect(
    kind: str, name: str, host: str, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", service.url)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    text = f"the connection to {host}:{service.port} was lost: "
    complaints = {}
    for title, script in LINES.items():
        outcome = service.play(kind, name, script, base_url=f"http://{host}:{service.port}")
        due = Expected(errors.TransportError, (text,), requests_of(kind, name, title), has={"sent": True})
        complaints[title] = due.complaint(outcome)
    check(complaints)


CHUNK = b"1\r\n \r\n"
TRICKLES: dict[str, Script] = {
    "nothing": trickle(b"", b""),
    "the status line": trickle(b"HTTP/1.1 200 ", b"O"),
    "a header": trickle(HEAD + b"X: ", b"x"),
    "headers": trickle(HEAD, b"X-Again: x\r\n"),
    "interim answers": trickle(b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "headers of an interim answer": trickle(b"HTTP/1.1 103 Early Hints\r\n", b"Link: x\r\n"),
    "a body": trickle(HEAD + b"Content-Length: 1000\r\n\r\n", b" "),
    "chunks": trickle(CHUNKED, CHUNK),
    "the extension of a chunk": trickle(CHUNKED + b"1;x=", b"x"),
    "a trailer": trickle(CHUNKED + CHUNK + b"0\r\nX: ", b"x"),
    "trailers": trickle(CHUNKED + CHUNK + b"0\r\n", b"X: x\r\n"),
}


@pytest.mark.parametrize(
    ("kind", "part"),
    [
        *(("requests", part) for part in TRICKLES),
        # Each takes a second more, and a timer of the event loop ends them all.
        *(("aiohttp", part) for part in ("nothing", "headers", "interim answers", "a trailer")),
    ],
)
def test_an_attempt_is_limited_in_each_part_of_an_answer(kind: str, part: str, service: Service) -> None:
    outcome = service.play(kind, "lease_messages", TRICKLES[part], timeout=PATIENCE)
    says = (f"no complete answer from 127.0.0.1:{service.port} within {PATIENCE:g} s",)
    check(
        {
            part: Expected(errors.TransportError, says, 1, has={"sent": True, "timed_out": True}).complaint(
                outcome
            )
        }
    )


@pytest.mark.parametrize("kind", SENDERS)
def test_a_request_for_a_token_is_limited_as_well(kind: str, service: Service) -> None:
    outcome = service.play(
        kind, "get_inbox", b"", token=TRICKLES["headers"], warm=False, timeout=PATIENCE, longest_wait=0.0
    )
    says = (f"no complete answer from 127.0.0.1:{service.port} within {PATIENCE:g} s",)
    due = Expected(errors.TransportError, says, 0, tokens=ATTEMPTS, has={"timed_out": True})
    check({"token": due.complaint(outcome)})


def no_handshake(connection: socket.socket) -> None:
    """A tunnel to a service that reads, and says nothing."""
    connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
    while connection.recv(65536):
        pass


TUNNELS: dict[str, Script] = {
    "nothing": trickle(b"", b""),
    "the status line of the proxy": trickle(b"HTTP/1.1 200 ", b"O"),
    "headers of the proxy": trickle(b"HTTP/1.1 200 OK\r\n", b"X: x\r\n"),
    "no handshake": no_handshake,
}


@pytest.mark.parametrize("part", TUNNELS)
@pytest.mark.parametrize("kind", SENDERS)
def test_the_tunnel_of_a_proxy_is_limited_and_nothing_was_sent_through_it(
    kind: str, part: str, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", service.url)
    outcome = service.play(
        kind, "lease_messages", TUNNELS[part], base_url="https://service.invalid", timeout=PATIENCE
    )
    says = (f"no connection to service.invalid within {PATIENCE:g} s",)
    # As nothing was sent, a task makes each attempt; the requests of this service are those to its proxy.
    due = Expected(errors.TransportError, says, ATTEMPTS, has={"sent": False, "timed_out": True})
    check({part: due.complaint(outcome)})


@pytest.mark.parametrize("kind", SENDERS)
def test_a_call_that_found_nobody_was_not_sent_and_is_tried_again(
    kind: str, service: Service, closed_port: int
) -> None:
    address = f"127.0.0.1:{closed_port}"
    outcome = service.play(kind, "lease_messages", b"", base_url=f"http://{address}")
    due = Expected(errors.TransportError, (f"{address} cannot be reached: ",), 0, has={"sent": False})
    check({"nobody listens": due.complaint(outcome)})
    assert len(outcome.naps) == by(kind, ATTEMPTS) - 1


OF_EACH_READER = (
    *("get_inbox", "list_inboxes", "list_messages", "lease_messages", "acknowledge_messages"),
    *("guess", "list_templates", "app_token"),
)
"""A call for each function of the client that reads an answer."""


def complaint(name: str, outcome: Outcome, *says: str) -> str:
    """What is wrong with a call whose answer is not to be believed, and which may have had its effect."""
    due = Expected(
        errors.TransportError, (name, *says), attempts_of(name), has={"sent": True, "permanent": False}
    )
    return due.complaint(outcome)


UNREADABLE: dict[str, tuple[bytes, str]] = {
    "an HTML page": (b"<html><body>Log in</body></html>", "text/html"),
    "JSON and then more": (b'{"id": "an-id"} {"id": "another"}', "application/json"),
    "no UTF-8": (b'["\xff\xfe\xfa"]', "application/json"),
    "a million brackets": (b"[" * 1_000_000, "application/json"),
    "blanks": (b" \r\n", "application/json"),
    "nothing": (b"", "text/plain"),
}


@pytest.mark.parametrize("name", OF_EACH_READER)
def test_what_is_no_json_or_json_of_another_kind_is_no_answer(name: str, service: Service) -> None:
    complaints = {}
    for title, (body, content_type) in UNREADABLE.items():
        outcome = service.play(STEPS, name, answer(200, body, {"Content-Type": content_type}))
        complaints[title] = complaint(
            name, outcome, "status 200", f"not JSON ({content_type}, {len(body)} bytes)"
        )
    other = b'{"something": "else"}' if isinstance(GOOD[name], list) else b'[{"id": 1}]'
    for body in (b"null", b"0", b'"text"', b"[null]", b"[[]]", b'[{"id": {}}]', other):
        outcome = service.play(STEPS, name, answer(200, body))
        complaints[body.decode()] = complaint(
            name, outcome, "the answer with status 200 has a body that is not "
        )
    check(complaints)


def without(value: dict[str, Any], field: str) -> dict[str, Any]:
    return {key: item for key, item in value.items() if key != field}


WRONG_FIELDS: dict[str, list[Any]] = {
    **{
        name: [without(INBOX, "id"), without(INBOX, "status"), {**INBOX, "id": 7}, {**INBOX, "status": None}]
        for name in CALLS
        if GOOD[name] is INBOX and name != "unenroll_promotion"
    },
    "guess": [
        *(without(GOOD["guess"], field) for field in ("title", "steps", "prefilled_url")),
        {**GOOD["guess"], "prefilled_url": None},
        {**GOOD["guess"], "steps": {}},
        {**GOOD["guess"], "steps": [{}]},
        {**GOOD["guess"], "steps": [{"step": "x"}]},
        {**GOOD["guess"], "steps": [{"step": {"app": "Mail"}}]},
        *({**GOOD["guess"], "steps": [{**STEP, "alternatives": odd}]} for odd in ([{"api": "x"}], STEP, 5)),
    ],
    "list_templates": [[{"id": [1]}], [None]],
    "list_inboxes": [
        PAGE,
        {**PAGE, "results": None},
        {**PAGE, "results": {}},
        {**PAGE, "results": [None]},
        {**PAGE, "results": [without(INBOX, "id")]},
        {**PAGE, "results": [INBOX], "next": 5},
        {**PAGE, "results": [INBOX], "next": {"href": "x"}},
    ],
    "list_messages": [
        {**PAGE, "results": "none"},
        {**PAGE, "results": [{**MESSAGE, "id": []}]},
        {**PAGE, "results": [MESSAGE], "next": True},
    ],
    "lease_messages": [
        without(GOOD["lease_messages"], "results"),
        {**GOOD["lease_messages"], "results": "none"},
        {**GOOD["lease_messages"], "results": {"m-1": {}}},
    ],
    "acknowledge_messages": [{"acked_id": "a", "results": 1}, {"acked_id": "a", "results": ["m-1"]}],
    "release_messages": [{"released_id": "r", "results": {"m-1": True}}],
}


@pytest.mark.parametrize("name", WRONG_FIELDS)
def test_an_answer_without_what_callers_rely_on_is_none(name: str, service: Service) -> None:
    complaints = {}
    for body in WRONG_FIELDS[name]:
        outcome = service.play(STEPS, name, answer(200, body))
        complaints[json.dumps(body)] = complaint(
            name, outcome, "the answer with status 200 has a body that is not "
        )
    check(complaints)


def test_an_answer_without_a_value_needs_no_body(service: Service) -> None:
    name = "unenroll_promotion"
    for reply in (answer(204, b""), answer(200, b""), answer(202, {"any": "thing"})):
        outcome = service.play(STEPS, name, reply)
        assert (outcome.value, outcome.error, outcome.sent) == (None, None, 1)
    page = service.play(STEPS, name, answer(200, b"<html>"))
    assert not complaint(name, page, "not JSON (no content type, 6 bytes)")
