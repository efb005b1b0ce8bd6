"""Certificates trusted by file, or not looked at; alike for both senders (refused ones: see ``matrix``)."""

from __future__ import annotations

import logging
import socket
import ssl
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_provider_workflow.client import api, errors
from airflow_provider_workflow.client.settings import Settings
from tests.unit import odd_files
from tests.unit.client import certificates
from tests.unit.client.calls import SOME_ID
from tests.unit.client.conftest import MakeSender
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
