"""TLS, proxies and the environment: what each transport uses of them."""

from __future__ import annotations

import base64
import logging
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_workflow.client import api, errors
from airflow_provider_workflow.client.settings import Settings
from tests.traces import texts, told
from tests.unit.client import certificates
from tests.unit.client.calls import SOME_ID
from tests.unit.client.conftest import MakeSender
from tests.unit.client.proxy import RecordingProxy
from tests.unit.client.scripted import ScriptedServer, answer

INBOX = answer(200, {"id": SOME_ID, "status": "active"})


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[ssl.SSLContext, Path]:
    return certificates.make(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def secure(made: tuple[ssl.SSLContext, Path]) -> Iterator[ScriptedServer]:
    with ScriptedServer(tls=made[0]) as server:
        server.answers = [INBOX]
        yield server


@pytest.fixture
def ca(made: tuple[ssl.SSLContext, Path]) -> str:
    return str(made[1])


def as_filled_in(server: ScriptedServer, connection_id: str = "", **extra: str) -> Settings:
    """A connection to a server, with nothing in its form but what has to be there."""
    extra = {"oauth_url": f"{server.url}/token", "timeout": "5", **extra}
    return Settings.build(
        host=server.url, login="i", password="a-secret", extra=extra, connection_id=connection_id
    )


@pytest.mark.filterwarnings("error:Unverified HTTPS request")
def test_a_connection_that_verifies_nothing_is_named_once_and_not_with_each_request(
    make_send: MakeSender, secure: ScriptedServer, caplog: pytest.LogCaptureFixture
) -> None:
    for connection_id in ("one", "another", "one"):
        send = make_send(as_filled_in(secure, connection_id, verify="false"))
        for _ in range(3):
            send(api.get_inbox(SOME_ID))
    assert len(secure.requests) == 9
    said = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(said) == 2
    for text, connection_id in zip(said, ("one", "another"), strict=True):
        assert f"{connection_id!r}" in text
        assert "verify" in text
        assert "a-secret" not in text


def test_a_folder_of_certificates_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(errors.ConfigurationError, match=r"verify must be true, false or .* file"):
        build(verify=str(tmp_path))


def build(**extra: str) -> Settings:
    extra = {"oauth_url": "https://a/t", **extra}
    return Settings.build(host="a", login="i", password="s", extra=extra)


def test_a_server_that_speaks_no_tls_is_named(make_send: MakeSender, scripted: ScriptedServer) -> None:
    scripted.greeting = b"220 this is mail\r\n" * 10
    url = scripted.url.replace("http:", "https:")
    send = make_send(scripted.settings(base_url=url, token_url=f"{url}/token"))
    with pytest.raises(errors.TransportError) as raised:
        send(api.lease_messages(SOME_ID))
    assert f"connection to 127.0.0.1:{scripted.port}" in str(raised.value)


def test_the_timeout_is_a_total_over_tls_too(make_send: MakeSender, secure: ScriptedServer, ca: str) -> None:
    def trickle(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
        for _ in range(1000):
            connection.sendall(b" ")
            time.sleep(0.02)

    secure.answers = [trickle]
    send = make_send(secure.settings(verify=ca, timeout=0.3))
    with pytest.raises(errors.TransportError, match=r"no complete answer from .* within 0\.3 s") as raised:
        send(api.lease_messages(SOME_ID))
    assert raised.value.sent


@pytest.mark.parametrize("variable", ["SSL_CERT_FILE", "SSL_CERT_DIR"])
def test_what_openssl_trusts_is_trusted_as_by_airflow_itself(
    make_send: MakeSender,
    secure: ScriptedServer,
    ca: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    variable: str,
) -> None:
    folder = tmp_path / "certs"
    folder.mkdir()
    (folder / "0123abcd.0").symlink_to(ca)
    (folder / "README").symlink_to("/dev/zero")
    monkeypatch.setenv(variable, ca if variable == "SSL_CERT_FILE" else f"{tmp_path}:{folder}")
    settings = secure.settings(verify=True)
    assert make_send(settings)(api.get_inbox(SOME_ID))["id"] == SOME_ID
    # The default authorities are trusted as before.
    assert str(settings.certificates()).startswith(str(build().certificates()))


SERVICE = "service.invalid"
"""A host that only a proxy can reach."""

MakeProxy = Callable[..., RecordingProxy]


@pytest.fixture
def make_proxy() -> Iterator[MakeProxy]:
    made: list[RecordingProxy] = []

    def make(*arguments: Any) -> RecordingProxy:
        made.append(RecordingProxy(*arguments))
        return made[-1]

    yield make
    for each in made:
        each.close()


def behind(scripted: ScriptedServer, **changes: Any) -> Any:
    scheme = scripted.url.partition(":")[0]
    url = f"{scheme}://{SERVICE}"
    return scripted.settings(base_url=url, token_url=f"{url}/token", **changes)


@pytest.mark.parametrize("variable", ["HTTP_PROXY", "http_proxy", "ALL_PROXY"])
@pytest.mark.parametrize("form", ["{url}", "{bare}"])
def test_a_proxy_carries_http(
    variable: str,
    form: str,
    make_send: MakeSender,
    scripted: ScriptedServer,
    make_proxy: MakeProxy,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    proxy = make_proxy(scripted.port)
    monkeypatch.setenv(variable, form.format(url=proxy.url, bare=proxy.url.removeprefix("http://")))
    scripted.answers = [INBOX]
    assert make_send(behind(scripted))(api.get_inbox(SOME_ID))["id"] == SOME_ID
    assert set(proxy.asked_for) == {
        f"POST http://{SERVICE}/token",
        f"GET http://{SERVICE}/trigger-inbox/v1/inboxes/{SOME_ID}",
    }


def test_a_proxy_that_refuses_a_tunnel_means_nothing_was_sent(
    make_send: MakeSender, scripted: ScriptedServer, make_proxy: MakeProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy = make_proxy(scripted.port, "407 Proxy Authentication Required")
    monkeypatch.setenv("HTTPS_PROXY", proxy.url.replace("http://", "http://me:proxy-pass@"))
    send = make_send(scripted.settings(base_url=f"https://{SERVICE}"))
    with pytest.raises(errors.TransportError, match=r"cannot be reached through the proxy.*407") as raised:
        send(api.lease_messages(SOME_ID))
    assert not raised.value.sent
    assert told(raised.value, ["proxy-pass", base64.b64encode(b"me:proxy-pass").decode()]) == []


def test_a_proxy_of_another_kind_is_refused_by_name(
    make_send: MakeSender, scripted: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALL_PROXY", "socks5://me:proxy-pass@127.0.0.1:1080")
    with pytest.raises(errors.ConfigurationError, match="socks5 proxy") as raised:
        make_send(scripted.settings())(api.get_inbox(SOME_ID))
    assert "proxy-pass" not in texts(raised.value)
    assert scripted.connections == 0
