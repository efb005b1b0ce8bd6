"""Legal HTTP in each of its forms: tasks and triggers take the same from it."""

from __future__ import annotations

import gzip
import json
import zlib
from typing import Any

import pytest

from airflow_provider_workflow.client import api, errors
from tests.unit.client.calls import SOME_ID
from tests.unit.client.scripted import ScriptedServer
from tests.unit.client.senders import SENDERS, SyncSender

VALUE = {"lease_id": "l", "results": [{"id": "m-1", "payload": {"n": "é👩‍💻"}}]}
LEASE = json.dumps(VALUE, ensure_ascii=False).encode()


def plain(body: bytes, *lines: bytes, status: bytes = b"201 Created") -> bytes:
    head = (b"HTTP/1.1 " + status, *lines, b"Content-Length: %d" % len(body))
    return b"\r\n".join((*head, b"", body))


def chunked(body: bytes, trailer: bytes = b"", *lines: bytes) -> bytes:
    parts = [body[start : start + 7] for start in range(0, len(body), 7)]
    chunks = b"".join(b"%x;extension=1\r\n%s\r\n" % (len(part), part) for part in parts)
    head = (b"HTTP/1.1 201 Created", b"Transfer-Encoding: chunked", *lines)
    return b"\r\n".join((*head, b"", chunks + b"0\r\n" + trailer, b""))


def encoded(name: bytes, body: bytes) -> bytes:
    return plain(body, b"Content-Encoding: " + name)


def bare_deflate(body: bytes) -> bytes:
    compressor = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return compressor.compress(body) + compressor.flush()


def busy(*lines: bytes) -> bytes:
    return plain(b"{}", *lines, status=b"429 Too Many Requests")


GOOD: dict[str, bytes] = {
    "as usual": plain(LEASE),
    "in chunks": chunked(LEASE),
    "in chunks with trailers": chunked(LEASE, b"X-Checksum: abc\r\n", b"Trailer: X-Checksum"),
    "gzip": encoded(b"gzip", gzip.compress(LEASE)),
    "x-gzip": encoded(b"x-gzip", gzip.compress(LEASE)),
    "GZIP": encoded(b"GZIP", gzip.compress(LEASE)),
    "two members of gzip": encoded(b"gzip", gzip.compress(LEASE[:50]) + gzip.compress(LEASE[50:])),
    "gzip in chunks": chunked(gzip.compress(LEASE), b"", b"Content-Encoding: gzip"),
    "deflate": encoded(b"deflate", zlib.compress(LEASE)),
    "bare deflate": encoded(b"deflate", bare_deflate(LEASE)),
    "identity": encoded(b"identity", LEASE),
    "after 100": b"HTTP/1.1 100 Continue\r\n\r\n" + plain(LEASE),
    "a byte order mark": plain(b"\xef\xbb\xbf" + LEASE),
    "UTF-16": plain(LEASE.decode().encode("utf-16")),
    "another header in Latin-1": plain(LEASE, b"X-Note: caf\xe9"),
    "until the connection ends": b"HTTP/1.0 201 Created\r\nConnection: close\r\n\r\n" + LEASE,
    "no reason": plain(LEASE, status=b"201"),
    "a Content-Type twice": plain(LEASE, b"Content-Type: text/html", b"Content-Type: application/json"),
}
BAD: dict[str, tuple[bytes, type[errors.WorkflowError]]] = {
    "no gzip": (encoded(b"gzip", LEASE), errors.TransportError),
    "half of the gzip": (encoded(b"gzip", gzip.compress(LEASE)[:-12]), errors.TransportError),
    "an unknown encoding": (encoded(b"br", LEASE), errors.TransportError),
    "two encodings": (encoded(b"gzip, gzip", gzip.compress(gzip.compress(LEASE))), errors.TransportError),
    "two lengths": (plain(LEASE, b"Content-Length: 5"), errors.TransportError),
    "a page": (plain(b"<html>", b"Content-Type: text/html"), errors.TransportError),
    "no content": (b"HTTP/1.1 204 No Content\r\n\r\n", errors.TransportError),
    "an empty body": (plain(b""), errors.TransportError),
    "two waits": (busy(b"Retry-After: 100", b"Retry-After: 200"), errors.RateLimitError),
    "a wait and a word": (busy(b"Retry-After: 100", b"Retry-After: soon"), errors.RateLimitError),
    "a word and a wait": (busy(b"Retry-After: soon", b"Retry-After: 100"), errors.RateLimitError),
    "a date": (busy(b"Retry-After: Wed, 21 Oct 2015 07:28:00 GMT"), errors.RateLimitError),
}


def outcomes(reply: bytes) -> list[Any]:
    """What a lease request comes to in tasks and in triggers, where this is the answer."""
    found: list[Any] = []
    sent = []
    for kind in SENDERS.values():
        with ScriptedServer() as server:
            server.answers = [reply]
            once = {"attempts": 1} if kind is SyncSender else {}
            sender = kind(server.settings(), longest_wait=0, **once)
            try:
                found.append(sender(api.lease_messages(SOME_ID)))
            except errors.WorkflowError as error:
                found.append(error)
            finally:
                sender.close()
            sent.append(len(server.requests))
    assert sent[0] == sent[1]
    return found


@pytest.mark.parametrize("form", GOOD)
def test_a_lease_in_any_legal_form_is_taken_by_tasks_and_triggers(form: str) -> None:
    for lease in outcomes(GOOD[form]):
        assert not isinstance(lease, Exception), lease
        assert {name: lease[name] for name in VALUE} == VALUE


@pytest.mark.parametrize("form", BAD)
def test_what_is_no_lease_is_the_same_error_in_tasks_and_triggers(form: str) -> None:
    reply, kind = BAD[form]
    found = outcomes(reply)
    assert [type(error) for error in found] == [kind, kind], found
    one, other = (
        {name: value for name, value in vars(error).items() if name not in ("rate_limit", "may_repeat")}
        for error in found
    )
    assert one == other
