"""TLS, proxies and the environment: what each transport uses of them."""

from __future__ import annotations

import base64
import logging
import select
import shutil
import socket
import ssl
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Barrier, BrokenBarrierError
from typing import Any

import pytest

from airflow_provider_workflow.client import api, errors
from airflow_provider_workflow.client.settings import Settings, proxy_for
from tests.traces import secrets_in, texts
from tests.unit.client import certificates
from tests.unit.client.calls import SOME_ID
from tests.unit.client.conftest import MakeSender
from tests.unit.client.scripted_server import Script, ScriptedServer, answer
from tests.unit.client.senders import SyncSender

INBOX = answer(200, {"id": SOME_ID, "status": "active"})


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> tuple[ssl.SSLContext, Path]:
    return certificates.make(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def secure(authority: tuple[ssl.SSLContext, Path]) -> Iterator[ScriptedServer]:
    with ScriptedServer(tls=authority[0]) as server:
        server.answers = [INBOX]
        yield server


@pytest.fixture
def ca(authority: tuple[ssl.SSLContext, Path]) -> str:
    return str(authority[1])


@pytest.mark.filterwarnings("error:Unverified HTTPS request")
def test_a_connection_that_verifies_nothing_is_named_once_and_not_with_each_request(
    make_send: MakeSender, secure: ScriptedServer, caplog: pytest.LogCaptureFixture
) -> None:
    for connection_id in ("one", "another", "one"):
        send = make_send(secure.settings(verify=False, connection_id=connection_id))
        for _ in range(3):
            send(api.get_inbox(SOME_ID))
    assert len(secure.requests) == 9
    warnings = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(warnings) == 2
    for text, connection_id in zip(warnings, ("one", "another"), strict=True):
        assert f"{connection_id!r}" in text
        assert "verify" in text
        assert "a-secret" not in text


def test_where_certificates_are_verified_or_there_is_no_tls_nothing_is_warned_of(
    ca: str, caplog: pytest.LogCaptureFixture
) -> None:
    for url, verify in (("https://a", ca), ("https://a", True), ("http://a", False)):
        Settings(url, "i", "s", f"{url}/t", verify=verify, connection_id=f"{url}, {verify}").tls()
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


def test_a_server_that_speaks_no_tls_is_named(make_send: MakeSender, scripted_server: ScriptedServer) -> None:
    scripted_server.greeting = b"220 this is mail\r\n" * 10
    url = scripted_server.url.replace("http:", "https:")
    send = make_send(scripted_server.settings(base_url=url, token_url=f"{url}/token"))
    with pytest.raises(errors.TransportError) as error_info:
        send(api.lease_messages(SOME_ID))
    assert f"no secure connection to 127.0.0.1:{scripted_server.port}" in str(error_info.value)
    assert not error_info.value.sent


def test_certificates_are_loaded_once_and_again_when_the_file_has_others(ca: str, tmp_path: Path) -> None:
    """Every task, trigger and answer of the page has a client, and to load them takes 20 ms or more."""
    file = Path(shutil.copy(ca, tmp_path))
    settings = Settings("https://a", "i", "s", "https://a/t", verify=str(file))
    first = settings.tls()
    assert settings.tls() is first
    (tmp_path / "other").mkdir()
    shutil.copy(certificates.make(tmp_path / "other")[1], file)
    assert settings.tls() is not first


def test_what_openssl_trusts_is_trusted_as_by_airflow_itself_and_loaded_once(
    make_send: MakeSender, secure: ScriptedServer, ca: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = secure.settings(verify=True)
    default = settings.tls()
    assert default is not None
    monkeypatch.setenv("SSL_CERT_FILE", ca)
    create, another = ssl.create_default_context, Barrier(2, timeout=0.2)

    def load(**of: str) -> ssl.SSLContext:
        with suppress(BrokenBarrierError):  # there is no other
            another.wait()
        return create(**of)

    monkeypatch.setattr(ssl, "create_default_context", load)
    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(lambda _: settings.tls(), range(8)))) == 1
    assert make_send(settings)(api.get_inbox(SOME_ID))["id"] == SOME_ID
    context = settings.tls()
    assert context is not None
    assert context.cert_store_stats()["x509"] == default.cert_store_stats()["x509"] + 1


@pytest.mark.parametrize("variable", ["HTTP_PROXY", "http_proxy", "ALL_PROXY"])
def test_a_variable_names_a_proxy_unless_no_proxy_has_the_host(
    variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for value in ("http://127.0.0.1:3128", "127.0.0.1:3128"):
        monkeypatch.setenv(variable, value)
        assert proxy_for("http://service.invalid/token") == "http://127.0.0.1:3128"
    monkeypatch.setenv("NO_PROXY", "127.0.0.1,service.invalid")
    assert proxy_for("http://service.invalid/token") is None


def tunnel_to(port: int) -> Callable[[socket.socket], None]:
    """What a proxy does with a connection once it was asked for a tunnel."""

    def tunnel(client: Any) -> None:
        with socket.create_connection(("127.0.0.1", port)) as service:
            client.sendall(b"HTTP/1.1 200 Connected\r\n\r\n")
            while ready := select.select([client, service], [], [], 5)[0]:
                for end in ready:
                    content = end.recv(65536)
                    if not content:
                        return
                    (service if end is client else client).sendall(content)

    return tunnel


def test_a_proxy_is_asked_for_a_tunnel_and_sees_no_token(
    make_send: MakeSender, secure: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ScriptedServer() as proxy:
        proxy.answers = [tunnel_to(secure.port)]
        monkeypatch.setenv("HTTPS_PROXY", proxy.url.replace("http://", "http://me:proxy-pass@"))
        url = "https://service.invalid"
        send = make_send(secure.settings(base_url=url, token_url=f"{url}/token", verify=False))
        assert send(api.get_inbox(SOME_ID))["id"] == SOME_ID
        heads = proxy.requests
    credentials = base64.b64encode(b"me:proxy-pass")
    assert {head.partition(b" HTTP")[0] for head in heads} == {b"CONNECT service.invalid:443"}
    assert all(b"Proxy-Authorization: Basic " + credentials in head for head in heads)
    assert not any(b"Bearer" in head or b"a-token" in head for head in heads)


def test_a_client_keeps_to_the_proxy_that_it_began_with(
    make_send: MakeSender, scripted_server: ScriptedServer, closed_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripted_server.answers = [INBOX] * 2
    settings = scripted_server.settings(base_url="http://service.invalid")
    monkeypatch.setenv("HTTP_PROXY", scripted_server.url)
    send = make_send(settings)
    for port in (scripted_server.port, closed_port):
        monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{port}")
        assert send(api.get_inbox(SOME_ID))["id"] == SOME_ID
    with pytest.raises(errors.TransportError, match="cannot be reached through the proxy"):
        make_send(settings)(api.get_inbox(SOME_ID))


@pytest.mark.parametrize("variable", ["REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"])
def test_the_bundle_of_the_environment_is_trusted(
    variable: str, make_send: MakeSender, secure: ScriptedServer, ca: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, ca)
    assert make_send(secure.settings())(api.get_inbox(SOME_ID))["id"] == SOME_ID


def test_a_secure_connection_that_breaks_after_the_request_may_have_had_its_effect(
    make_send: MakeSender, secure: ScriptedServer, ca: str
) -> None:
    def talk_nonsense(connection: socket.socket) -> None:
        # Plain bytes within the encrypted stream: the client's TLS layer fails while it reads.
        with socket.socket(fileno=socket.dup(connection.fileno())) as raw:
            raw.sendall(b"this is no TLS record" * 10)
            raw.shutdown(socket.SHUT_RDWR)

    secure.answers = [talk_nonsense]
    with pytest.raises(errors.TransportError) as error_info:
        make_send(secure.settings(verify=ca))(api.lease_messages(SOME_ID))
    assert error_info.value.sent
    assert len(secure.requests) == 1


@pytest.mark.parametrize("size", [10, 9_000])
@pytest.mark.parametrize("has_proxy", [False, True])
def test_a_second_answer_in_the_last_record_of_an_answer_is_the_answer_of_no_call(
    has_proxy: bool,
    size: int,
    make_send: MakeSender,
    secure: ScriptedServer,
    authority: tuple[ssl.SSLContext, Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first, stale, second = (
        answer(200, {"id": name, "status": "active", "name": "x" * length})
        for name, length in (("first", size), ("stale", 0), ("second", 0))
    )
    secure.script(first + stale, second)
    with ScriptedServer(tls=authority[0]) as proxy:
        proxy.answers = [tunnel_to(secure.port)]
        if has_proxy:
            monkeypatch.setenv("HTTPS_PROXY", proxy.url)
        send = make_send(secure.settings(verify=str(authority[1])))
        assert [send(api.pause_inbox(SOME_ID))["id"] for _ in range(2)] == ["first", "second"]
        assert bool(proxy.connections) is has_proxy


def test_a_proxy_that_refuses_a_tunnel_means_nothing_was_sent(
    make_send: MakeSender, scripted_server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripted_server.answers = [answer(407).replace(b"Any", b"\x1b[31m" + b"x" * 3000)]
    monkeypatch.setenv("HTTPS_PROXY", scripted_server.url.replace("http://", "http://me:proxy-pass@"))
    send = make_send(scripted_server.settings(base_url="https://service.invalid"))
    with pytest.raises(errors.TransportError, match=r"through the proxy[ -~]+407[ -~]{,300}$") as error_info:
        send(api.lease_messages(SOME_ID))
    assert scripted_server.requests[-1].startswith(b"CONNECT service.invalid:443 ")
    assert not error_info.value.sent
    assert secrets_in(error_info.value, ["proxy-pass", base64.b64encode(b"me:proxy-pass").decode()]) == []


def cut_in_the_handshake(client: socket.socket) -> None:
    client.sendall(b"HTTP/1.1 200 Connected\r\n\r\n")
    client.recv(65536)


THROUGH_THE_PROXY = "service.invalid cannot be reached through the proxy of the environment: "


@pytest.mark.parametrize(
    ("tunnel", "says"),
    [
        (b"", THROUGH_THE_PROXY),
        (lambda client: client.sendall(b"HTTP/1.1 2"), THROUGH_THE_PROXY),
        (lambda client: client.sendall(b"no HTTP\r\n\r\n"), THROUGH_THE_PROXY),
        (cut_in_the_handshake, ""),
    ],
    ids=["cut before the answer", "cut in the answer", "no HTTP", "cut in the handshake"],
)
def test_a_tunnel_that_breaks_means_nothing_was_sent(
    tunnel: Script,
    says: str,
    make_send: MakeSender,
    scripted_server: ScriptedServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scripted_server.answers = [tunnel]
    monkeypatch.setenv("HTTPS_PROXY", scripted_server.url)
    send = make_send(scripted_server.settings(base_url="https://service.invalid"))
    with pytest.raises(errors.TransportError) as error_info:
        send(api.lease_messages(SOME_ID))
    assert not error_info.value.sent
    assert str(error_info.value).startswith(says)
    assert not any(b"Bearer" in request for request in scripted_server.requests)


def test_a_proxy_of_another_kind_is_refused_by_name(
    scripted_server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALL_PROXY", "socks5://me:proxy-pass@127.0.0.1:1080")
    with pytest.raises(errors.ConfigurationError, match="socks5 proxy") as error_info:
        SyncSender(scripted_server.settings())(api.get_inbox(SOME_ID))
    assert "proxy-pass" not in texts(error_info.value)
    for login_and_host in (
        "proxy-[pass@127.0.0.1:1080",
        "proxy-pass@proxy:80abc",
        "proxy-pass@proxy:99999",
        "p@",
    ):
        monkeypatch.setenv("ALL_PROXY", f"http://me:{login_and_host}")
        with pytest.raises(errors.ConfigurationError, match="a proxy that is no URL") as error_info:
            SyncSender(scripted_server.settings())(api.app_token("external"))
        assert (error_info.value.fix, "proxy-pass" in texts(error_info.value)) == ("", False)
    assert scripted_server.connections == 0
