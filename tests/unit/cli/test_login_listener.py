"""The wait for the browser: one answer on one path, with one state; whatever else comes changes nothing."""

from __future__ import annotations

import http.client
import socket
import threading
from collections.abc import Iterator

import pytest

from airflow_provider_workflow.cli.login import CannotListenError, Listener, LocalEndpoint, NoAnswerError
from airflow_provider_workflow.hooks.login import AuthorizationDeniedError
from tests.unit.client.conftest import free_port

__all__ = ["free_port"]

STATE = "the-state-that-was-sent"
CODE = "the-code-of-the-answer"
SECONDS = 10.0


@pytest.fixture
def endpoint(free_port: int) -> LocalEndpoint:
    return LocalEndpoint("127.0.0.1", free_port, "/back")


@pytest.fixture
def listener(endpoint: LocalEndpoint) -> Iterator[Listener]:
    with Listener(endpoint, STATE) as listening:
        yield listening


def ask(
    endpoint: LocalEndpoint,
    target: str = f"/back?code={CODE}&state={STATE}",
    *,
    host: str | None = None,
    method: str = "GET",
    address: str = "127.0.0.1",
) -> tuple[int, dict[str, str], str]:
    connection = http.client.HTTPConnection(address, endpoint.port, timeout=SECONDS)
    connection.putrequest(method, target, skip_host=True)
    if host != "":
        connection.putheader("Host", host or f"{endpoint.host}:{endpoint.port}")
    connection.endheaders()
    answer = connection.getresponse()
    headers = {name.lower(): value for name, value in answer.getheaders()}
    body = answer.read().decode()
    connection.close()
    return answer.status, headers, body


def test_the_answer_ends_the_wait(listener: Listener, endpoint: LocalEndpoint) -> None:
    status, headers, page = ask(endpoint)
    assert status == 200
    assert listener.wait(SECONDS) == CODE
    assert headers["cache-control"] == "no-store"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["content-security-policy"] == "default-src 'none'"
    assert not [secret for secret in (CODE, STATE) if secret in page + str(headers)]


@pytest.mark.parametrize(
    ("target", "status"),
    [
        (f"/back?code={CODE}&state=another", 400),
        (f"/back?code={CODE}", 400),
        (f"/back?code={CODE}&state={STATE}&state={STATE}", 400),
        (f"/back?code={CODE}&code=other&state={STATE}", 400),
        (f"/back?state={STATE}", 400),
        ("/back?error=access_denied&state=another", 400),
        ("/back?error=access_denied", 400),
        (f"/back/?code={CODE}&state={STATE}", 404),
        ("/favicon.ico", 404),
    ],
)
def test_what_is_not_the_answer_is_refused_and_the_wait_goes_on(
    target: str, status: int, listener: Listener, endpoint: LocalEndpoint
) -> None:
    refused, _, page = ask(endpoint, target)
    assert refused == status
    assert not [secret for secret in (CODE, STATE) if secret in page]
    ask(endpoint)
    assert listener.wait(SECONDS) == CODE


@pytest.mark.parametrize("host", ["evil.example.com", "127.0.0.1", "127.0.0.1:1"])
def test_another_host_header_is_refused(host: str, listener: Listener, endpoint: LocalEndpoint) -> None:
    assert ask(endpoint, host=host.format(port=endpoint.port))[0] == 400
    ask(endpoint)
    assert listener.wait(SECONDS) == CODE


@pytest.mark.parametrize("method", ["POST", "HEAD"])
def test_nothing_but_a_get_is_taken(method: str, listener: Listener, endpoint: LocalEndpoint) -> None:
    status, _, page = ask(endpoint, method=method)
    assert status == 501
    assert CODE not in page
    ask(endpoint)
    assert listener.wait(SECONDS) == CODE


def test_a_request_that_is_no_http_is_not_quoted(
    listener: Listener, endpoint: LocalEndpoint, capfd: pytest.CaptureFixture[str]
) -> None:
    with socket.create_connection(("127.0.0.1", endpoint.port), SECONDS) as raw:
        raw.sendall(f"GET /back?code={CODE} with too many words\r\n\r\n".encode())
        answer = raw.makefile("rb").read()
    assert CODE.encode() not in answer
    ask(endpoint)
    assert listener.wait(SECONDS) == CODE
    assert CODE not in "".join(capfd.readouterr())


def test_connections_on_which_nothing_comes_hold_nothing_up(
    listener: Listener, endpoint: LocalEndpoint
) -> None:
    idle = [socket.create_connection(("127.0.0.1", endpoint.port), SECONDS) for _ in range(3)]
    ask(endpoint)
    assert listener.wait(SECONDS) == CODE
    for each in idle:
        each.close()


def test_the_first_answer_counts_and_no_other(listener: Listener, endpoint: LocalEndpoint) -> None:
    assert ask(endpoint)[0] == 200
    assert ask(endpoint, f"/back?code=another&state={STATE}")[0] == 400
    assert listener.wait(SECONDS) == CODE
    with pytest.raises(NoAnswerError):
        listener.wait(0.01)


def test_a_browser_that_leaves_before_its_page_has_brought_the_answer(
    listener: Listener, endpoint: LocalEndpoint
) -> None:
    with socket.create_connection(("127.0.0.1", endpoint.port), SECONDS) as raw:
        raw.sendall(
            f"GET /back?code={CODE}&state={STATE} HTTP/1.1\r\n"
            f"Host: 127.0.0.1:{endpoint.port}\r\n\r\n".encode()
        )
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
    assert listener.wait(SECONDS) == CODE


def test_a_refusal_is_an_error_in_one_line(listener: Listener, endpoint: LocalEndpoint) -> None:
    ask(endpoint, f"/back?error=access_denied&error_description=The%20user%0Asaid%1B[2Jno.&state={STATE}")
    with pytest.raises(AuthorizationDeniedError) as raised:
        listener.wait(SECONDS)
    assert str(raised.value) == "The authorization page answered 'access_denied': The user said [2Jno."


def test_who_waits_in_vain_learns_how_many_others_came(listener: Listener, endpoint: LocalEndpoint) -> None:
    ask(endpoint, "/other")
    with pytest.raises(NoAnswerError, match=r"within 0\.01 s; 1 other requests were received"):
        listener.wait(0.01)


def test_a_port_that_is_taken_is_named(endpoint: LocalEndpoint) -> None:
    with (
        socket.create_server(("127.0.0.1", endpoint.port)),
        pytest.raises(CannotListenError, match=f"port {endpoint.port} of 127.0.0.1: Address already in use"),
        Listener(endpoint, STATE),
    ):
        pass


def test_only_this_machine_can_connect_and_afterwards_nobody(endpoint: LocalEndpoint) -> None:
    with Listener(endpoint, STATE) as listening:
        assert listening.addresses == ["127.0.0.1"]
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", endpoint.port), SECONDS)


def test_localhost_is_both_of_its_addresses(free_port: int) -> None:
    endpoint = LocalEndpoint("localhost", free_port, "/back")
    with Listener(endpoint, STATE) as listening:
        addresses = listening.addresses
        assert addresses[0] == "127.0.0.1"
        assert set(addresses) <= {"127.0.0.1", "::1"}
        assert ask(endpoint, address=addresses[-1])[0] == 200
        assert listening.wait(SECONDS) == CODE


def test_an_ipv6_address_is_listened_on(free_port: int) -> None:
    endpoint = LocalEndpoint.of(f"http://[::1]:{free_port}/back")
    assert endpoint is not None
    try:
        with Listener(endpoint, STATE) as listening:
            assert ask(endpoint, host=f"[::1]:{free_port}", address="::1")[0] == 200
            assert listening.wait(SECONDS) == CODE
    except CannotListenError:
        pytest.skip("this machine has no IPv6")


def test_leaving_at_once_ends_the_threads(endpoint: LocalEndpoint) -> None:
    before = threading.active_count()
    for _ in range(20):
        with Listener(endpoint, STATE):
            pass
    assert threading.active_count() <= before + 2
