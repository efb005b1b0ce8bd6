"""HTTP as both transports send and receive it, and the errors for responses that are no answer."""

from __future__ import annotations

import asyncio
import gzip
import json
import pickle
import socket
import time
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from ssl import SSLCertVerificationError
from typing import Any

import pytest

from airflow_provider_workflow.client import api, errors
from airflow_provider_workflow.client.aiohttp_transport import shared_session
from airflow_provider_workflow.client.async_client import AsyncWorkflowClient
from airflow_provider_workflow.client.call import Call
from airflow_provider_workflow.client.settings import USER_GRANT
from airflow_provider_workflow.client.tokens import TokenCache, token_key
from airflow_provider_workflow.text import host_of
from tests.unit.client.calls import SOME_ID, SUBSCRIPTION
from tests.unit.client.conftest import MakeSender
from tests.unit.client.scripted_server import ScriptedServer, answer
from tests.unit.client.senders import AsyncSender, Sender, StepsSender, SyncSender
from tests.unit.fake_clock import FakeClock

INBOX = answer(200, {"id": SOME_ID, "status": "active"})


@pytest.fixture
def line(make_send: MakeSender, scripted_server: ScriptedServer) -> Sender:
    """A sender to the scripted server, with little patience."""
    return make_send(scripted_server.settings(timeout=0.4))


def fails(send: Sender, call: Any = None) -> errors.TransportError:
    with pytest.raises(errors.TransportError) as error_info:
        send(call or api.lease_messages(SOME_ID))
    return error_info.value


async def test_the_triggers_of_an_event_loop_share_a_session_until_the_last_one_leaves() -> None:
    async with shared_session(None, 0) as one:
        async with shared_session(None, 0) as other:
            assert other is one
        assert not one.closed
    assert one.closed


def test_a_name_that_does_not_resolve_means_nothing_was_sent(
    make_send: MakeSender, scripted_server: Any
) -> None:
    error = fails(make_send(scripted_server.settings(base_url="http://nowhere.invalid")))
    assert not error.sent
    assert str(error).startswith("nowhere.invalid cannot be reached: ")


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://api.example.com/v2/guess?client_id=x", "api.example.com"),
        ("http://user:password@host:81/", "host:81"),
        ("http://[::1]:81/", "[::1]:81"),
    ],
)
def test_errors_name_a_service_by_host_and_port_alone(url: str, name: str) -> None:
    assert host_of(url) == name


@contextmanager
def deaf_listener(host: str, port: int = 0) -> Iterator[int]:
    """A port whose queue is full: connecting to it never ends."""
    with socket.socket() as listener:
        listener.bind((host, port))
        listener.listen(0)
        queue = [socket.socket() for _ in range(3)]
        for connection in queue:
            connection.setblocking(False)
            connection.connect_ex(listener.getsockname())
        yield listener.getsockname()[1]
        for connection in queue:
            connection.close()


@pytest.fixture
def deaf_port() -> Iterator[int]:
    with deaf_listener("127.0.0.1") as port:
        yield port


def test_a_connection_that_never_stands_means_nothing_was_sent(
    make_send: MakeSender, scripted_server: ScriptedServer, deaf_port: int
) -> None:
    assert not fails(
        make_send(scripted_server.settings(base_url=f"http://127.0.0.1:{deaf_port}", timeout=0.1))
    ).sent


def test_all_addresses_of_a_host_share_the_time_limit(
    make_send: MakeSender, scripted_server: ScriptedServer, deaf_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolve = socket.getaddrinfo

    def many(host: Any, *args: Any, **options: Any) -> Any:
        return resolve("127.0.0.1", *args, **options) * (1000 if host == "many.invalid" else 1)

    monkeypatch.setattr(socket, "getaddrinfo", many)
    error = fails(
        make_send(scripted_server.settings(base_url=f"http://many.invalid:{deaf_port}", timeout=0.1))
    )
    assert (error.sent, error.timed_out) == (False, True)
    assert str(error) == f"no connection to many.invalid:{deaf_port} within 0.1 s"


@pytest.mark.parametrize("is_deaf", [False, True])
def test_the_next_address_of_a_host_is_tried(
    is_deaf: bool, make_send: MakeSender, scripted_server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolve, port = socket.getaddrinfo, scripted_server.port
    addresses = [
        *resolve("127.0.0.9", port, type=socket.SOCK_STREAM),
        *resolve("127.0.0.1", port, type=socket.SOCK_STREAM),
    ]
    monkeypatch.setattr(
        socket,
        "getaddrinfo",
        lambda host, *args, **more: addresses if host == "two.invalid" else resolve(host, *args, **more),
    )
    scripted_server.answers = [INBOX]
    settings = scripted_server.settings(base_url=f"http://two.invalid:{port}", timeout=0.5)
    with ExitStack() as deaf:
        if is_deaf:
            deaf.enter_context(deaf_listener("127.0.0.9", port))
        assert make_send(settings)(api.get_inbox(SOME_ID))["id"] == SOME_ID


def test_a_handshake_that_never_ends_is_a_time_limit(
    make_send: MakeSender, scripted_server: ScriptedServer
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"https://127.0.0.1:{silent.getsockname()[1]}"
        assert fails(make_send(scripted_server.settings(base_url=url, timeout=0.1))).timed_out


def test_a_kept_connection_that_has_died_may_have_had_its_effect(
    line: Sender, scripted_server: ScriptedServer
) -> None:
    scripted_server.answers = [INBOX, b""]
    line(api.get_inbox(SOME_ID))
    assert fails(line).sent
    assert len(scripted_server.requests) == 2
    assert scripted_server.connections == 1


@pytest.mark.slow
def test_a_request_that_is_not_read_is_limited(
    make_send: MakeSender, scripted_server: ScriptedServer
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        url = f"http://127.0.0.1:{deaf.getsockname()[1]}"
        send = make_send(scripted_server.settings(base_url=url, timeout=0.2))
        error = fails(send, api.create_inbox({**SUBSCRIPTION, "inputs": {"text": "x" * 20_000_000}}, "big"))
    assert error.timed_out


def is_still_renewing(error: errors.TransportError) -> bool:
    return not error.sent and error.timed_out and str(error) == "the access token is still being renewed"


def test_a_task_does_not_wait_for_ever_for_a_token_that_another_thread_renews(
    scripted_server: ScriptedServer,
) -> None:
    settings = scripted_server.settings(timeout=0.1)
    with closing(SyncSender(settings, attempts=1, longest_wait=0.1)) as send:
        send.tokens.join(token_key(settings, settings.scope))
        assert is_still_renewing(fails(send))


async def test_a_trigger_does_not_wait_for_ever_for_a_token_that_another_one_renews(
    scripted_server: ScriptedServer, fake_clock: FakeClock
) -> None:
    settings, tokens = scripted_server.settings(timeout=30), TokenCache()
    tokens.join(token_key(settings, settings.scope))
    async with shared_session(None, 0) as session:
        client = AsyncWorkflowClient(settings, session, tokens=tokens, gates={})
        task = asyncio.ensure_future(client.send(api.get_inbox(SOME_ID)))
        await fake_clock.elapse(89)
        assert not task.done()
        await fake_clock.elapse(1)
        with pytest.raises(errors.TransportError) as error_info:
            await task
    assert is_still_renewing(error_info.value)


def test_an_error_that_the_caller_handles_is_no_cause_of_a_lost_answer(
    line: Sender, scripted_server: ScriptedServer
) -> None:
    scripted_server.answers = [b""]
    try:
        raise SSLCertVerificationError
    except SSLCertVerificationError:
        error = fails(line)
    assert (error.sent, error.permanent) == (True, False)


@pytest.mark.slow
def test_each_call_has_all_of_its_time(make_send: MakeSender, scripted_server: ScriptedServer) -> None:
    def slowly(connection: socket.socket) -> None:
        for part in (INBOX[:20], INBOX[20:]):
            connection.sendall(part)
            time.sleep(0.6)

    send = make_send(scripted_server.settings(timeout=1.5))
    scripted_server.answers = [slowly]
    for _ in range(2):
        assert send(api.get_inbox(SOME_ID))["id"] == SOME_ID


def test_an_answer_of_chunks_leaves_its_connection_good(
    line: Sender, scripted_server: ScriptedServer
) -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    chunks = b'4\r\n{"id\r\n18\r\n": "i", "status": "new"}\r\n0\r\n\r\n'
    scripted_server.answers = [b"HTTP/1.1 100 Continue\r\n\r\n" + head + chunks]
    for _ in range(2):
        assert line(api.get_inbox(SOME_ID)) == {"id": "i", "status": "new"}
    assert scripted_server.connections == 1


def test_cookies_of_the_service_are_not_kept(line: Sender, scripted_server: ScriptedServer) -> None:
    scripted_server.answers = [INBOX.replace(b"\r\n", b"\r\nSet-Cookie: session=someone; Path=/\r\n", 1)]
    for _ in range(2):
        line(api.get_inbox(SOME_ID))
    assert b"ookie" not in scripted_server.requests[1]


def test_a_call_without_a_body_says_so(line: Sender, scripted_server: ScriptedServer) -> None:
    scripted_server.answers = [INBOX]
    line(api.pause_inbox(SOME_ID))
    assert b"content-length: 0\r\n" in scripted_server.requests[0].lower()


VALUE = {
    "lease_id": "l",
    "results": [{"id": "m-1", "payload": {"n": "é👩‍💻"}, "status": "on_holiday", "color": {"new": [1]}}],
    "inbox_attributes": {"status": "on_holiday", "new": "field"},
}
LEGAL_LEASE = json.dumps(VALUE, ensure_ascii=False).encode()


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
    "in chunks with trailers": chunked(LEGAL_LEASE, b"X-Checksum: abc\r\n", b"Trailer: X-Checksum"),
    "GZIP": encoded(b"GZIP", gzip.compress(LEGAL_LEASE)),
    "two members of gzip": encoded(
        b"gzip", gzip.compress(LEGAL_LEASE[:50]) + gzip.compress(LEGAL_LEASE[50:])
    ),
    "gzip in chunks": chunked(gzip.compress(LEGAL_LEASE), b"", b"Content-Encoding: gzip"),
    "deflate": encoded(b"deflate", zlib.compress(LEGAL_LEASE)),
    "bare deflate": encoded(b"deflate", bare_deflate(LEGAL_LEASE)),
    "a byte order mark": plain(b"\xef\xbb\xbf" + LEGAL_LEASE),
    "UTF-16": plain(LEGAL_LEASE.decode().encode("utf-16")),
    "another header in Latin-1": plain(LEGAL_LEASE, b"X-Note: caf\xe9", b"Content-Type: ;;=\xff/"),
    "until the connection ends": b"HTTP/1.0 201 Created\r\nConnection: close\r\n\r\n" + LEGAL_LEASE,
    "another status, no reason": plain(LEGAL_LEASE, status=b"299"),
    "a Content-Type twice": plain(LEGAL_LEASE, b"Content-Type: text/html", b"Content-Type: application/json"),
    "10 MB of blanks": plain(b" " * 10_000_000 + LEGAL_LEASE),
}
BAD: dict[str, tuple[bytes, type[errors.WorkflowError]]] = {
    "half of the gzip": (encoded(b"gzip", gzip.compress(LEGAL_LEASE)[:-12]), errors.TransportError),
    "an unknown encoding": (encoded(b"br", LEGAL_LEASE), errors.TransportError),
    "gzip under another name": (encoded(b"br", gzip.compress(LEGAL_LEASE)), errors.TransportError),
    "two lengths": (plain(LEGAL_LEASE, b"Content-Length: 5"), errors.TransportError),
    "a page": (plain(b"<html>", b"Content-Type: text/html"), errors.TransportError),
    "no content": (b"HTTP/1.1 204 No Content\r\n\r\n", errors.TransportError),
    "two waits": (busy(b"Retry-After: 100", b"Retry-After: 200"), errors.RateLimitError),
    "a wait and a word": (busy(b"Retry-After: 100", b"Retry-After: soon"), errors.RateLimitError),
    "a word and a wait": (busy(b"Retry-After: soon", b"Retry-After: 100"), errors.RateLimitError),
}


def outcomes(reply: bytes, scripted_server: ScriptedServer) -> list[Any]:
    """What a lease request comes to in tasks and in triggers, where this is the answer."""
    ends: list[Any] = []
    for kind, once in ((SyncSender, {"attempts": 1}), (AsyncSender, {})):
        scripted_server.script(reply)
        with closing(kind(scripted_server.settings(), longest_wait=0, **once)) as sender:
            try:
                ends.append(sender(api.lease_messages(SOME_ID)))
            except errors.WorkflowError as error:
                ends.append(error)
        assert len(scripted_server.requests) == 1
    return ends


@pytest.mark.parametrize("form", GOOD)
def test_a_lease_in_any_legal_form_is_taken_by_tasks_and_triggers(
    form: str, scripted_server: ScriptedServer
) -> None:
    for lease in outcomes(GOOD[form], scripted_server):
        assert not isinstance(lease, Exception), lease
        assert {name: lease[name] for name in VALUE} == VALUE


@pytest.mark.parametrize("form", BAD)
def test_what_is_no_lease_is_the_same_error_in_tasks_and_triggers(
    form: str, scripted_server: ScriptedServer
) -> None:
    reply, kind = BAD[form]
    ends = outcomes(reply, scripted_server)
    assert [type(error) for error in ends] == [kind, kind], ends
    one, other = (
        {name: value for name, value in vars(error).items() if name != "may_repeat"} for error in ends
    )
    assert one == other


GET = api.get_inbox("0f0e0d0c-0b0a-4908-8706-050403020100")
CREDENTIALS = "correct its Client ID (login) and Client secret"
SERVICE = "correct its Scope, and take Base URL (host) and Token URL"
PROMOTIONS = "have the application allowed to use the scope promotions:write"
LOG_IN = "log in again (airflow-workflow login --conn-id shop_prod)"


@pytest.mark.parametrize(
    ("status", "code", "call", "by_token", "changes", "fix"),
    [
        (401, "invalid_client", GET, True, {}, CREDENTIALS),
        (400, "invalid_client", GET, True, {}, CREDENTIALS),
        (403, "", GET, True, {}, CREDENTIALS),
        (400, "invalid_scope", GET, True, {}, "correct the scope, or have"),
        (200, "", GET, True, {}, "correct its Token URL"),
        (404, "Not Found", GET, True, {}, "correct its Token URL"),
        (401, "", api.guess("an order"), False, {}, "correct its Client ID (login)"),
        (403, "", api.unenroll_promotion("1"), False, {}, PROMOTIONS),
        (401, "invalid_audience", GET, False, {}, SERVICE),
        (400, "unauthenticated", GET, False, {}, "have the application allowed to use trigger inboxes"),
        (400, "invalid_grant", api.exchange_code("c", "b"), True, {"grant": USER_GRANT}, LOG_IN),
    ],
)
def test_a_refusal_names_connection_host_and_cure_in_one_sentence(
    status: int,
    code: str,
    call: Call[Any],
    by_token: bool,
    changes: dict[str, str],
    fix: str,
    scripted_server: ScriptedServer,
) -> None:
    body = {"error": code, "error_description": "not you"} if code else {}
    if code in ("unauthenticated", "invalid_audience"):
        body = {"errors": [{"code": code, "detail": "not you"}]}
    scripted_server.script(answer(status, body), token=answer(status, body) if by_token else None)
    send = StepsSender(scripted_server.settings(connection_id="shop_prod", **changes), scripted_server.reply)
    with pytest.raises(errors.AuthenticationError) as error_info:
        send(call)

    error, text = error_info.value, str(error_info.value)
    does = "gives no access token for" if status in (200, 404) else "rejects the credentials of"
    refusal = f"127.0.0.1:{scripted_server.port} {does} the connection 'shop_prod'"
    assert text.startswith(f"{refusal} ({error.reason}): {fix}")
    assert "\n" not in text
    assert not any(secret in text for secret in ("a-secret", "scripted-token", "an-id"))
    assert str(pickle.loads(pickle.dumps(error))) == text


def test_after_the_audience_was_corrected_a_new_token_is_got(scripted_server: ScriptedServer) -> None:
    scripted_server.script(answer(401, {"errors": [{"code": "invalid_audience", "detail": ""}]}))
    send = StepsSender(scripted_server.settings(), scripted_server.reply)
    for _ in range(3):
        with pytest.raises(errors.AuthenticationError):
            send(api.get_inbox(SOME_ID))
    assert len(scripted_server.token_requests) == 2


def test_without_a_connection_the_text_is_what_the_service_answered(scripted_server: ScriptedServer) -> None:
    scripted_server.script(answer(403, {"detail": "not you"}))
    with pytest.raises(
        errors.AuthenticationError, match=r"^The request to guess a workflow was answered with 403: not you$"
    ):
        StepsSender(scripted_server.settings(), scripted_server.reply)(api.guess("an order"))
