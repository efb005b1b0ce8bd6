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
from airflow_provider_workflow.client.settings import Settings, proxy_for
from tests.traces import texts, told
from tests.unit import odd_files
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


@pytest.mark.filterwarnings("error:Unverified HTTPS request")
@pytest.mark.parametrize("verify", [False, "ca"])
def test_a_file_or_no_verification_lets_it_pass(
    make_send: MakeSender, secure: ScriptedServer, ca: str, verify: bool | str
) -> None:
    send = make_send(secure.settings(verify=ca if verify == "ca" else verify))
    assert send(api.get_inbox(SOME_ID))["id"] == SOME_ID
    assert secure.connections == 1


def as_filled_in(server: ScriptedServer, connection_id: str = "", **extra: str) -> Settings:
    """A connection to a server, with nothing in its form but what has to be there."""
    extra = {"oauth_url": f"{server.url}/token", "timeout": "5", **extra}
    return Settings.build(
        host=server.url, login="i", password="a-secret", extra=extra, connection_id=connection_id
    )


def test_certificates_are_verified_unless_the_connection_says_otherwise(
    make_send: MakeSender, secure: ScriptedServer
) -> None:
    with pytest.raises(errors.TransportError, match="does not verify") as raised:
        make_send(as_filled_in(secure))(api.get_inbox(SOME_ID))
    assert raised.value.permanent
    assert (secure.requests, secure.token_requests) == ([], [])


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


def test_where_certificates_are_verified_or_there_is_no_tls_nothing_is_said(
    make_send: MakeSender,
    secure: ScriptedServer,
    scripted: ScriptedServer,
    ca: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    scripted.answers = [INBOX]
    make_send(as_filled_in(secure, verify=ca))(api.get_inbox(SOME_ID))
    make_send(as_filled_in(scripted, verify="false"))(api.get_inbox(SOME_ID))
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


def test_the_bundle_of_the_environment_holds_for_both(
    make_send: MakeSender, secure: ScriptedServer, ca: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", ca)
    assert make_send(secure.settings())(api.get_inbox(SOME_ID))["id"] == SOME_ID


@pytest.mark.parametrize("variable", ["REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"])
@pytest.mark.parametrize("found", ["nothing", "no certificates"])
def test_a_useless_bundle_of_the_environment_is_named(
    variable: str, found: str, scripted: ScriptedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "bundle.pem"
    if found == "no certificates":
        file.write_text("nothing of use")
    monkeypatch.setenv(variable, str(file))
    with pytest.raises(errors.ConfigurationError, match=f"{variable} names a file that "):
        scripted.settings(verify=True).certificates()


def test_a_folder_of_certificates_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(errors.ConfigurationError, match=r"verify must be true, false or .* file"):
        build(verify=str(tmp_path))


def test_a_file_without_certificates_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "x.pem").write_text("nothing of use")
    with pytest.raises(errors.ConfigurationError, match=r"verify must be true, false or .* file"):
        build(verify=str(tmp_path / "x.pem"))


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


def test_a_tls_connection_that_breaks_after_the_request_may_have_had_its_effect(
    make_send: MakeSender, secure: ScriptedServer, ca: str
) -> None:
    def talk_nonsense(connection: socket.socket) -> None:
        # Plain bytes inside the encrypted stream: the client's TLS layer fails while it reads.
        raw = socket.socket(fileno=socket.dup(connection.fileno()))
        raw.sendall(b"this is no TLS record" * 10)
        raw.shutdown(socket.SHUT_RDWR)
        raw.close()

    secure.answers = [talk_nonsense]
    send = make_send(secure.settings(verify=ca))
    with pytest.raises(errors.TransportError) as raised:
        send(api.lease_messages(SOME_ID))
    assert raised.value.sent
    assert len(secure.requests) == 1


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


def test_a_file_is_opened_once_and_not_by_the_http_library(
    make_send: MakeSender, secure: ScriptedServer, ca: str, tmp_path: Path
) -> None:
    """Otherwise a pipe could take its place after the check."""
    file = tmp_path / "ca.pem"
    file.write_bytes(Path(ca).read_bytes())
    secure.answers = [answer(200, {"id": SOME_ID, "status": "active"}, close=True)]
    send = make_send(secure.settings(verify=str(file)))
    send(api.get_inbox(SOME_ID))
    file.unlink()
    with odd_files.made("pipe", tmp_path) as path:
        Path(path).rename(file)
        assert send(api.get_inbox(SOME_ID))["id"] == SOME_ID
        file.rename(path)
    assert secure.connections == 2


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


def test_a_proxy_carries_https_without_seeing_it(
    make_send: MakeSender, make_proxy: MakeProxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context, _ = certificates.make(tmp_path)
    with ScriptedServer(tls=context) as secure:
        secure.answers = [INBOX]
        proxy = make_proxy(secure.port)
        monkeypatch.setenv("HTTPS_PROXY", proxy.url.replace("http://", "http://me:proxy-pass@"))
        assert make_send(behind(secure, verify=False))(api.get_inbox(SOME_ID))["id"] == SOME_ID
    assert set(proxy.asked_for) == {f"CONNECT {SERVICE}:443"}
    credentials = base64.b64encode(b"me:proxy-pass")
    assert all(b"Proxy-Authorization: Basic " + credentials in head for head in proxy.heads)
    assert not any(b"Bearer" in head for head in proxy.heads)


@pytest.mark.parametrize("exception", ["127.0.0.1", "*"])
def test_no_proxy_is_obeyed(
    exception: str,
    make_send: MakeSender,
    scripted: ScriptedServer,
    make_proxy: MakeProxy,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    proxy = make_proxy(scripted.port)
    monkeypatch.setenv("HTTP_PROXY", proxy.url)
    monkeypatch.setenv("NO_PROXY", exception)
    scripted.answers = [INBOX]
    make_send(scripted.settings())(api.get_inbox(SOME_ID))
    assert proxy.heads == []


def test_a_change_of_the_environment_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    assert proxy_for("http://a/x") is None
    monkeypatch.setenv("HTTP_PROXY", "http://proxy:1")
    assert proxy_for("http://a/x") == "http://proxy:1"
    monkeypatch.setenv("HTTP_PROXY", "http://proxy:2")
    assert proxy_for("http://a/y") == "http://proxy:2"


def test_a_client_keeps_to_the_proxy_that_it_found_first(
    make_send: MakeSender, scripted: ScriptedServer, make_proxy: MakeProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = make_proxy(scripted.port), make_proxy(scripted.port)
    monkeypatch.setenv("HTTP_PROXY", first.url)
    scripted.answers = [INBOX] * 3
    send = make_send(behind(scripted))
    send(api.get_inbox(SOME_ID))
    monkeypatch.setenv("HTTP_PROXY", second.url)
    send(api.get_inbox(SOME_ID))
    assert second.heads == []
    make_send(behind(scripted))(api.get_inbox(SOME_ID))
    assert second.heads != []


def test_a_proxy_that_refuses_a_tunnel_means_nothing_was_sent(
    make_send: MakeSender,
    scripted: ScriptedServer,
    make_proxy: MakeProxy,
    monkeypatch: pytest.MonkeyPatch,
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


def test_proxies_of_the_operating_system_are_not_used(
    make_send: MakeSender, scripted: ScriptedServer, make_proxy: MakeProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """macOS and Windows have them; on macOS a forked process can crash when it asks for them."""
    proxy = make_proxy(scripted.port)
    for module in ("requests.utils", "requests.compat", "urllib.request"):
        monkeypatch.setattr(f"{module}.getproxies", lambda: {"http": proxy.url})
        monkeypatch.setattr(f"{module}.proxy_bypass", lambda host: False)
    scripted.answers = [INBOX]
    make_send(scripted.settings())(api.get_inbox(SOME_ID))
    assert proxy.heads == []
