"""
Forms of HTTP: both transports read an answer, or both refuse it with the same words.

Tasks and triggers of one inbox must agree, or everything looks fine and nothing arrives.
"""

from __future__ import annotations

import json
import random
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest

from airflow_provider_workflow.client import api, errors
from airflow_provider_workflow.client.answers import NOT_HTTP
from airflow_provider_workflow.client.call import Call
from airflow_provider_workflow.client.tokens import AccessToken, token_key
from tests.unit.client.calls import SOME_ID
from tests.unit.client.scripted_server import Script, ScriptedServer, answer
from tests.unit.client.senders import SENDERS, Sender

BODY = json.dumps({"id": "first", "status": "active"}).encode()
LENGTH = b"Content-Length: %d" % len(BODY)
SIZE = b"%x" % len(BODY)
CLOSE = b"Connection: close"
SECOND = answer(200, {"id": "second", "status": "active"})
CALL = api.pause_inbox(SOME_ID)
"""Not repeated by a client or a library, so that each answer is that of one call."""


def whole(*lines: bytes, status: bytes = b"HTTP/1.1 200 OK", length: bytes = LENGTH) -> bytes:
    return b"\r\n".join((status, *lines, *([length] if length else []), b"", BODY))


def coded(chunks: bytes, *lines: bytes, coding: bytes = b"chunked") -> bytes:
    return b"\r\n".join((b"HTTP/1.1 200 OK", b"Transfer-Encoding: " + coding, *lines, b"", chunks))


def sized(size: bytes, after: bytes = b"\r\n", end: bytes = b"0\r\n\r\n") -> bytes:
    """An answer of one chunk, and what follows its size, its bytes, and all chunks."""
    return coded(size + BODY + after + end)


def in_two(reply: bytes, cut: int, seconds: float = 0.005) -> Callable[[socket.socket], None]:
    """Sends an answer in two packets, if it can, and ends the connection."""

    def play(connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.sendall(reply[:cut])
        time.sleep(seconds)  # else both are often one packet
        connection.sendall(reply[cut:])

    return play


CHUNKS = SIZE + b"\r\n" + BODY + b"\r\n0\r\n\r\n"
EARLY_HINTS = b"HTTP/1.1 103 Early Hints\r\nLink: </style.css>\r\n\r\n"

READ: dict[str, bytes] = {
    "102 before the answer": b"HTTP/1.1 102 Processing\r\n\r\n" + whole(),
    "103 before the answer": EARLY_HINTS + whole(),
    "103 twice, then 100": EARLY_HINTS * 2 + b"HTTP/1.1 100 Continue\r\n\r\n" + whole(),
    "100 again and again": b"HTTP/1.1 100 Continue\r\n\r\n" * 5 + whole(),
    "an unknown interim status": b"HTTP/1.1 199 Unknown\r\n\r\n" + whole(),
    "an interim answer with a length": EARLY_HINTS.replace(b"Link: <", b"Content-Length: 5\r\nX: <")
    + whole(),
    "a header of 60 kB": whole(b"Content-Security-Policy: " + b"a" * 60_000),
    "twenty headers of 60 kB": whole(*(b"X-%d: " % number + b"a" * 60_000 for number in range(20))),
    "the name of a header of 60 kB": whole(b"a" * 60_000 + b": x"),
    "250 headers": whole(*(b"X-%d: x" % number for number in range(250))),
    "a header in two lines": whole(b"X: a\r\n b"),
    "a length in two lines": whole(length=LENGTH.replace(b" ", b"\r\n ")),
    "headers of UTF-8, Latin-1 and controls": whole("X: é".encode(), b"Y: \xe9", b"Z: a\x01\x0b\x1c\x85b"),
    "headers without a value": whole(b"X:", b"Transfer-Encoding:"),
    "line feeds alone": whole().replace(b"\r\n", b"\n"),
    "empty lines before": b"\r\n\n\r\n" + whole(),
    "no reason": whole(status=b"HTTP/1.1 200"),
    "an empty reason": whole(status=b"HTTP/1.1 200 "),
    "a reason of 60 kB": whole(status=b"HTTP/1.1 200 " + b"x" * 60_000),
    "a reason in Latin-1": whole(status=b"HTTP/1.1 200 caf\xe9"),
    "HTTP/1.0": whole(CLOSE, status=b"HTTP/1.0 200 OK"),
    "HTTP/1.0 that stays open": whole(b"Connection: keep-alive", status=b"HTTP/1.0 200 OK"),
    "HTTP/0.9 with a head": whole(CLOSE, status=b"HTTP/0.9 200 OK"),
    "HTTP/2.0 in the words of HTTP/1.1": whole(CLOSE, status=b"HTTP/2.0 200 OK"),
    "a length with zeros": whole(length=LENGTH.replace(b": ", b": 00")),
    "a length between blanks": whole(length=LENGTH.replace(b": ", b":   ") + b"  "),
    "no length": whole(CLOSE, length=b""),
    "an unknown coding without a length": whole(CLOSE, b"Transfer-Encoding: identity", length=b""),
    "an upgrade that is offered": whole(b"Upgrade: h2c", b"Connection: Upgrade"),
    "CHUNKED": coded(CHUNKS, coding=b"CHUNKED"),
    "chunked twice": coded(CHUNKS, coding=b"chunked\r\nTransfer-Encoding: chunked"),
    "chunked at last": coded(CHUNKS, CLOSE, coding=b"identity, chunked"),
    "chunks with extensions": sized(SIZE + b';a="b;c";d=' + b"x" * 1_000 + b"\r\n"),
    "the size of a chunk with zeros": sized(b"0" * 20 + SIZE + b" \r\n"),
    "a last chunk of more zeros": sized(SIZE + b"\r\n", end=b"000\r\n\r\n"),
    "200 trailers": sized(SIZE + b"\r\n", end=b"0\r\n" + b"X-Checksum: x\r\n" * 200 + b"\r\n"),
    "a line end after the body": whole() + b"\r\n",
    "a second answer after the body": whole() + SECOND.replace(b"second", b"others"),
}
"""Answers that are read, to a call and not to the next one on the connection."""

REFUSED: dict[str, Script] = {
    "an interim answer with a body": EARLY_HINTS.replace(b"Link", b"Content-Length: 5\r\nX")
    + b"hello"
    + whole(),
    "an interim answer that ends the connection": EARLY_HINTS.replace(b"Link", CLOSE + b"\r\nX") + whole(),
    "100 of HTTP/1.0": b"HTTP/1.0 100 Continue\r\n\r\n" + whole(CLOSE),
    "a header of 70 kB": whole(b"X: " + b"a" * 70_000),
    "300 headers": whole(*(b"X-%d: x" % number for number in range(300))),
    "300 headers before the answer": EARLY_HINTS.replace(b"Link", b"X: x\r\n" * 300 + b"X") + whole(),
    "a header without a colon": whole(b"hello"),
    "a header without a name": whole(b": x"),
    "a blank before a colon": whole(b"X : x"),
    "a name with other signs": whole(b"X(a): x"),
    "a name in UTF-8": whole("é: x".encode()),
    "a zero byte in a header": whole(b"X: a\0b"),
    "a carriage return in a header": whole(b"X: a\rb"),
    "a line feed in a header": whole(b"X: a\nb"),
    "a reason of 70 kB": whole(status=b"HTTP/1.1 200 " + b"x" * 70_000),
    "two blanks before the status": whole(status=b"HTTP/1.1  200 OK"),
    "a tab before the status": whole(status=b"HTTP/1.1\t200 OK"),
    **{
        f"the status {status}": whole(status=b"HTTP/1.1 %b OK" % status.encode())
        for status in ("20", "2000", "+20", "2_0", "two")
    },
    **{
        f"the version {version}": whole(status=version.encode() + b" 200 OK")
        for version in ("HTTP/1.2", "HTTP/1.11", "HTTP/2", "HTTP/3.0", "http/1.1", "ICY")
    },
    "text before": b"hello\r\n" + whole(),
    **{
        f"the length {length}": whole(length=b"Content-Length: " + length.encode("latin-1"))
        for length in (
            "+34",
            "-34",
            "3_4",
            "0x22",
            "34.0",
            "many",
            "",
            "34, 34",
            "34, 5",
            "9" * 23,
            "\xb2",
            "\xa034",
        )
    },
    "one length twice": whole(LENGTH),
    "two lengths": whole(b"Content-Length: 5"),
    "a length and chunks": coded(CHUNKS, LENGTH),
    "a length and another coding": whole(b"Transfer-Encoding: identity"),
    **{
        f"a chunk of the size {size!r}": sized(size.encode() + b"\r\n")
        for size in (" 22", "+22", "-22", "0x22", "2_2", "", "zz", "f" * 21, "22;\1")
    },
    "a good chunk and a bad size": coded(b"1\r\n{\r\nzz\r\n" + BODY[1:] + b"\r\n0\r\n\r\n"),
    "a bad size in a later packet": in_two(coded(b"1\r\n{\r\nzz\r\n"), len(coded(b""))),
    "a chunk without a line end": sized(SIZE + b"\r\n", after=b""),
    "a chunk that goes on": sized(SIZE + b"\r\n", after=b"xx"),
    "chunks of line feeds": coded(CHUNKS.replace(b"\r\n", b"\n")),
    "a trailer of 70 kB": sized(SIZE + b"\r\n", end=b"0\r\nX: " + b"x" * 70_000 + b"\r\n\r\n"),
    "a trailer without a colon": sized(SIZE + b"\r\n", end=b"0\r\nhello\r\n\r\n"),
    "junk after the body": whole() + b"junk",
    "junk after the last chunk": coded(CHUNKS) + b"junk",
    "junk after the end": whole(CLOSE) + b"junk",
    "a body of a 204": whole(status=b"HTTP/1.1 204 No Content"),
    "a body of a 304": whole(status=b"HTTP/1.1 304 Not Modified"),
    "no HTTP": b"\x15\x03\x01\x00\x02\x02\x46" + CLOSE,
    **{
        f"cut {place}": in_two(reply, len(reply))
        for place, reply in {
            "before it begins": b"",
            "in the status line": b"HTTP/1.1 2",
            "after the status line": b"HTTP/1.1 200 OK\r\n",
            "in a header": b"HTTP/1.1 200 OK\r\nX: y",
            "after the headers": b"HTTP/1.1 200 OK\r\n" + LENGTH + b"\r\n",
            "after an interim answer": EARLY_HINTS,
            "in the body": whole()[:-5],
            "between two chunks": coded(b"1\r\n{\r\n"),
            "after the chunks": sized(SIZE + b"\r\n", end=b""),
            "in the trailers": sized(SIZE + b"\r\n", end=b"0\r\nX: y\r\n"),
        }.items()
    },
}
"""Answers that are incomplete or not valid HTTP."""

STATUSES: dict[str, tuple[bytes, type[errors.WorkflowAPIError]]] = {
    "101": (
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
        errors.WorkflowAPIError,
    ),
    "101 without a protocol": (b"HTTP/1.1 101 Switching Protocols\r\n\r\n", errors.WorkflowAPIError),
    "099": (whole(status=b"HTTP/1.1 099 Early"), errors.WorkflowAPIError),
    "300": (whole(status=b"HTTP/1.1 300 Choices"), errors.WorkflowAPIError),
    "304": (b"HTTP/1.1 304 Not Modified\r\n\r\n", errors.WorkflowAPIError),
    "600": (whole(status=b"HTTP/1.1 600 Late"), errors.ServerError),
    "503 after 103": (EARLY_HINTS + answer(503), errors.ServerError),
    "429 after 102": (b"HTTP/1.1 102 Processing\r\n\r\n" + answer(429), errors.RateLimitError),
}
"""Statuses that are no success, even where only the status matters."""


@pytest.fixture(scope="module")
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer() as server:
        yield server


def warm(kind: str, server: ScriptedServer, *answers: Script, **changes: Any) -> Sender:
    """A sender that makes one attempt, and has its tokens."""
    server.script(*answers)
    settings = server.settings(**changes)
    sender = SENDERS[kind](settings, longest_wait=0.0, **({"attempts": 1} if kind == "requests" else {}))
    now = sender.clock.monotonic()
    for scope in (settings.scope, "promotions:write"):
        sender.tokens.put(token_key(settings, scope), AccessToken("warm-token", now + 3000, now + 3600))
    return sender


def outcome(send: Sender, call: Call[Any]) -> Any:
    """The id of the inbox in an answer, or the class and the text of an error."""
    try:
        return send(call)["id"]
    except errors.WorkflowError as error:
        return type(error), str(error)


@pytest.mark.parametrize("form", READ)
@pytest.mark.parametrize("kind", SENDERS)
def test_an_answer_in_this_form_is_read_and_the_next_call_has_its_own(
    kind: str, form: str, server: ScriptedServer
) -> None:
    with closing(warm(kind, server, READ[form], SECOND)) as send:
        assert [outcome(send, CALL), outcome(send, CALL)] == ["first", "second"]


@pytest.mark.parametrize("form", REFUSED)
def test_an_answer_in_this_form_is_the_same_error_in_tasks_and_triggers(
    form: str, server: ScriptedServer
) -> None:
    text = (
        f"the connection to 127.0.0.1:{server.port} was lost: its answer is incomplete, or is not valid HTTP"
    )
    for kind in SENDERS:
        with closing(warm(kind, server, REFUSED[form], SECOND)) as send:
            assert outcome(send, CALL) == (errors.TransportError, text), kind
            assert outcome(send, CALL) == "second", kind


@pytest.mark.parametrize(
    "form", [form for form in REFUSED if form.startswith(("a chunk of", "a trailer of"))]
)
@pytest.mark.parametrize("kind", SENDERS)
def test_a_chunk_that_is_refused_ends_a_call_also_if_it_comes_after_the_headers(
    kind: str, form: str, server: ScriptedServer
) -> None:
    reply = REFUSED[form]
    assert isinstance(reply, bytes)
    cut = len(reply) // 2 if "trailer" in form else reply.index(b"\r\n\r\n") + 4
    with closing(warm(kind, server, in_two(reply, cut, seconds=0.03))) as send:
        assert NOT_HTTP in outcome(send, CALL)[1]


@pytest.mark.parametrize("status", STATUSES)
def test_no_status_but_200_to_299_is_a_success(status: str, server: ScriptedServer) -> None:
    reply, error = STATUSES[status]
    ends = []
    for kind in SENDERS:
        with closing(warm(kind, server, reply)) as send, pytest.raises(error) as error_info:
            send(api.unenroll_promotion("e-1"))
        assert type(error_info.value) is error
        ends.append(str(error_info.value))
    assert ends[0] == ends[1]


OF_BLANKS: dict[str, tuple[bytes, bool]] = {
    "within a value": (b"X: a" + b" " * 30_000 + b"b", True),
    "before a zero byte": (b"X:" + b" \t" * 750 + b"\0", False),
    "before a zero byte in a second line": (b"X: a\r\n" + b" \t" * 750 + b"\0", False),
}
"""Headers of many blanks, and whether an answer with one is read."""


@pytest.mark.parametrize("form", OF_BLANKS)
@pytest.mark.parametrize("kind", SENDERS)
def test_a_header_of_many_blanks_takes_no_time(kind: str, form: str, server: ScriptedServer) -> None:
    header, is_read = OF_BLANKS[form]
    with closing(warm(kind, server, whole(header))) as send:
        began_at = time.thread_time()
        assert (outcome(send, CALL) == "first") is is_read
        assert time.thread_time() - began_at < 1


QUOTED: dict[str, bytes] = {
    "a type in UTF-8": "text/é; charset=ü".encode(),
    "a type in Latin-1": b"text/\xe9",
    "a type with controls": b"text/\x1b[31m",
}
"""Headers that an error quotes."""


@pytest.mark.parametrize("form", QUOTED)
def test_an_error_quotes_a_header_alike_in_tasks_and_triggers(form: str, server: ScriptedServer) -> None:
    page = whole(b"Content-Type: " + QUOTED[form]).replace(b'"', b"<")
    ends = []
    for kind in SENDERS:
        with closing(warm(kind, server, page)) as send:
            ends.append(outcome(send, CALL))
    assert ends[0] == ends[1]
    assert "(text/" in ends[0][1]


TUNNELS: dict[str, Script] = {
    "no HTTP": b"220 mail.example.com" + CLOSE + b"\r\n\r\n",
    "cut": in_two(b"HTTP/1.1 2", 0),
    "nothing": b"",
    "a header of 70 kB": b"HTTP/1.1 200 OK\r\nX: " + b"x" * 70_000 + b"\r\n\r\n",
}


@pytest.mark.parametrize("form", TUNNELS)
@pytest.mark.parametrize("kind", SENDERS)
def test_an_answer_of_a_proxy_that_is_no_http_is_named_as_that(
    kind: str, form: str, server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", server.url)
    with (
        closing(warm(kind, server, TUNNELS[form], base_url="https://service.invalid")) as send,
        pytest.raises(errors.TransportError) as error_info,
    ):
        send(CALL)
    assert str(error_info.value) == (
        "service.invalid cannot be reached through the proxy of the environment:"
        " its answer is incomplete, or is not valid HTTP"
    )
    assert not error_info.value.sent


STALE = whole().replace(b"first", b"stale")
LATE: dict[str, tuple[bytes, bytes]] = {
    "the answer a second time": (whole(), STALE),
    "an unrequested 408": (whole(), answer(408)),
    "the answer after a 101": (b"HTTP/1.1 101 Switching Protocols\r\n\r\n", STALE),
    "the body of a 204": (b"HTTP/1.1 204 No Content\r\nContent-Length: 200\r\n\r\n", STALE),
    "junk": (whole(), b"junk"),
}
"""An answer, and what the service sends some time after it without a request."""


@pytest.mark.parametrize("title", LATE)
@pytest.mark.parametrize("kind", SENDERS)
def test_what_was_received_without_a_request_is_the_answer_of_no_call(
    kind: str, title: str, server: ScriptedServer
) -> None:
    reply, late = LATE[title]
    was_read, was_sent = threading.Event(), threading.Event()

    def play(connection: socket.socket) -> None:
        connection.sendall(reply)
        was_read.wait(10)
        connection.sendall(late)
        was_sent.set()
        while connection.recv(65536):
            connection.sendall(SECOND)

    with closing(warm(kind, server, play, SECOND)) as send:
        outcome(send, CALL)
        was_read.set()
        assert was_sent.wait(10)
        assert outcome(send, CALL) == "second"


@pytest.mark.parametrize("kind", SENDERS)
@pytest.mark.parametrize("host", ["a" * 70 + ".invalid", "a..invalid", "127.0.0.1:0"])
def test_a_host_that_no_request_can_reach_is_named(kind: str, host: str, server: ScriptedServer) -> None:
    with closing(warm(kind, server, base_url=f"http://{host}")) as send:
        error, text = outcome(send, CALL)
    assert error is errors.TransportError
    assert host.partition(":")[0] in text


PARTS = (
    *(b"\r\n", b"\n", b"\r", b": ", b":", b" ", b"\t", b";", b",", b"0", b"-1", b"\0", b"\xff", b"chunked"),
    *(b"HTTP/1.0 ", b"HTTP/1.1 ", b"101", b"204", LENGTH + b"\r\n", CLOSE + b"\r\n", EARLY_HINTS),
    *(b"Content-Encoding: gzip\r\n", b"Content-Encoding: br\r\n", b"Transfer-Encoding: chunked\r\n"),
    *(b"Set-Cookie: =;\xff\r\n", b"Location: http://[x\r\n", b"Upgrade: x\r\n", b"X: x\r\n" * 300),
)


def broken(chance: random.Random) -> tuple[bytes, int]:
    """An answer with some faults, and how much of it comes in its first packet."""
    forms = [*READ.values(), *(form for form in REFUSED.values() if isinstance(form, bytes))]
    reply = chance.choice(forms)
    for _ in range(chance.choice((1, 1, 2, 5))):
        start = chance.randrange(len(reply) + 1)
        end = start + chance.choice((0, 0, 1, 5, 20))
        reply = reply[:start] + chance.choice((b"", bytes([chance.randrange(256)]), *PARTS)) + reply[end:]
    return reply[: chance.choice((len(reply), len(reply) * 9 // 10))], chance.randrange(len(reply) + 1)


@pytest.mark.slow
@pytest.mark.parametrize("kind", SENDERS)
def test_whatever_is_received_a_call_ends_with_a_value_or_an_error_of_this_package(
    kind: str, server: ScriptedServer
) -> None:
    chance = random.Random(20_261_129)
    for _ in range(200):
        reply, cut = broken(chance)
        with closing(warm(kind, server, in_two(reply, cut), timeout=0.3)) as send:
            try:
                outcome(send, CALL)
            except Exception as error:
                raise AssertionError(f"{reply[:2000]!r}, in two after {cut} bytes") from error
