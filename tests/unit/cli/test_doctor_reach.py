"""``doctor`` on the way to the service: name, port, TLS, proxy; each fault told apart, with its own fix."""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_provider_workflow.cli.doctor_connection import UnreachableError, reach
from airflow_provider_workflow.client.settings import Settings
from tests.unit.cli.diagnosing import Doctor, connect, doctor
from tests.unit.client import certificates
from tests.unit.client.conftest import closed_port
from tests.unit.client.isolation import isolated
from tests.unit.client.scripted import ScriptedServer, answer

__all__ = ["closed_port", "connect", "doctor", "isolated"]

Made = tuple[ssl.SSLContext, Path]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return certificates.make(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def expired(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return certificates.make(tmp_path_factory.mktemp("expired"), days=(-10, -1))


@pytest.fixture(scope="module")
def early(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return certificates.make(tmp_path_factory.mktemp("early"), days=(1, 10))


def serving(tls: ssl.SSLContext) -> ScriptedServer:
    server = ScriptedServer(tls=tls)
    server.token = answer(200, {"access_token": "a", "scope": "external"})
    server.answers = [answer(200, {"results": [], "next": None})]
    return server


@pytest.fixture
def secure(made: Made) -> Iterator[ScriptedServer]:
    with serving(made[0]) as server:
        yield server


def test_a_certificate_that_signs_itself(doctor: Doctor, secure: ScriptedServer) -> None:
    found = doctor.examine({"oauth_url": f"{secure.url}/token", "verify": True}, host=secure.url)
    assert found.exit_code == 1
    assert found.of("failed") == ["token_url", "host"]
    assert found["host"]["detail"] == f"the certificate of 127.0.0.1:{secure.port} is self-signed"
    assert "set Verify TLS to a file" in found["host"]["fix"]
    assert found.of("skipped") == ["client", "scope", "clock", "inbox_api", "inboxes"]
    assert secure.requests + secure.token_requests == [], "nothing was sent"


def test_its_own_certificate_makes_it_trusted(doctor: Doctor, secure: ScriptedServer, made: Made) -> None:
    extra = {"oauth_url": f"{secure.url}/token", "verify": str(made[1])}
    found = doctor.examine(extra, host=secure.url)
    assert found.exit_code == 0
    assert found["tls"] == {
        "check": "tls",
        "status": "ok",
        "detail": f"certificates are verified, by {made[1]}",
        "fix": None,
    }
    assert "TLSv1." in found["host"]["detail"]


def test_certificates_that_nobody_verifies(doctor: Doctor, secure: ScriptedServer) -> None:
    found = doctor.examine({"oauth_url": f"{secure.url}/token", "verify": "false"}, host=secure.url)
    assert found.exit_code == 0
    assert found["tls"]["status"] == "warning"
    assert "certificates are not verified" in found["tls"]["detail"]
    assert found["host"]["detail"].endswith("its certificate not verified")


def settings(url: str, verify: bool | str = False, timeout: float = 5.0) -> Settings:
    return Settings(url, "an-id", "a-secret", url, verify=verify, timeout=timeout)


def unreachable(url: str, verify: bool | str = False, timeout: float = 5.0) -> UnreachableError:
    with pytest.raises(UnreachableError) as raised:
        reach("Base URL", url, settings(url, verify, timeout))
    return raised.value


def test_a_certificate_that_has_expired(expired: Made) -> None:
    with serving(expired[0]) as server:
        fault = unreachable(server.url, str(expired[1]))
    assert fault.detail == f"the certificate of 127.0.0.1:{server.port} has expired"
    assert "renew it" in fault.fix


def test_a_certificate_that_is_not_valid_yet(early: Made) -> None:
    with serving(early[0]) as server:
        fault = unreachable(server.url, str(early[1]))
    assert fault.detail.endswith("is not valid yet")
    assert "clock" in fault.fix


def test_a_certificate_of_another_name(secure: ScriptedServer, made: Made) -> None:
    fault = unreachable(secure.url.replace("127.0.0.1", "localhost"), str(made[1]))
    assert fault.detail == f"the certificate of localhost:{secure.port} is for another host name"
    assert fault.fix == "use the name in the certificate in Base URL"


def test_a_name_that_nobody_knows() -> None:
    fault = unreachable("https://no-such-host.invalid")
    assert fault.detail == "the name no-such-host.invalid cannot be resolved"
    assert "check the spelling of Base URL" in fault.fix


def test_a_name_that_cannot_be_one() -> None:
    assert "cannot be resolved" in unreachable(f"https://{'a' * 70}.example.com").detail


def test_a_port_on_which_nobody_listens(closed_port: int) -> None:
    fault = unreachable(f"https://127.0.0.1:{closed_port}")
    assert fault.detail == f"127.0.0.1:{closed_port} refuses connections"
    assert "check the port in Base URL" in fault.fix


def test_a_port_that_takes_no_more_connections() -> None:
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        port = listener.getsockname()[1]
        for _ in range(4):  # its queue is full after the first or second
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                waiting.connect(("127.0.0.1", port))
        fault = unreachable(f"http://127.0.0.1:{port}", timeout=0.2)
    assert fault.detail == f"127.0.0.1:{port} did not accept a connection within 0.2 s"
    assert "firewall" in fault.fix


def test_a_server_that_speaks_no_tls(doctor: Doctor) -> None:
    url = doctor.emulator.base_url
    fault = unreachable(url.replace("http:", "https:"))
    assert "the TLS handshake failed: " in fault.detail
    assert "Base URL must begin with http://" in fault.fix
    assert reach("Base URL", url, settings(url)) == f"{url.removeprefix('http://')} answers, without TLS"


def test_a_server_that_keeps_silent() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        fault = unreachable(f"https://127.0.0.1:{listener.getsockname()[1]}", timeout=0.2)
    assert fault.detail.endswith("the TLS handshake failed: it does not answer")


def test_a_proxy_is_examined_in_the_place_of_the_service(
    doctor: Doctor, closed_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = "https://api.example.com/v2"
    monkeypatch.setenv("HTTPS_PROXY", f"http://user:proxy-password@127.0.0.1:{closed_port}")
    fault = unreachable(url)
    assert fault.detail == f"127.0.0.1:{closed_port} refuses connections"
    assert "the proxy of the environment" in fault.fix
    monkeypatch.setenv("HTTPS_PROXY", doctor.emulator.base_url)
    name = doctor.emulator.base_url.removeprefix("http://")
    said = reach("Base URL", url, settings(url))
    assert said == f"the proxy {name} answers; api.example.com is reached through it"


def test_a_proxy_that_cannot_be_used(doctor: Doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "socks5://127.0.0.1:1")
    found = doctor.examine()
    assert "the environment names a socks5 proxy" in found["host"]["detail"]
    assert found["host"]["status"] == "failed"


def test_an_address_that_is_not_this_machine_s_should_be_secure(doctor: Doctor) -> None:
    found = doctor.examine(host="http://no-such-host.invalid")
    assert found["tls"]["status"] == "warning"
    assert found["tls"]["detail"] == "Base URL without TLS: secrets are sent unencrypted"


def test_a_bundle_that_is_gone(doctor: Doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", "/no/such/file.pem")
    found = doctor.examine({"verify": True})
    assert found.of("failed") == ["tls"]
    assert "REQUESTS_CA_BUNDLE names a file that cannot be read: No such file" in found["tls"]["detail"]


def test_a_bundle_that_is_broken(doctor: Doctor, tmp_path: Path) -> None:
    bundle = tmp_path / "ca.pem"
    bundle.write_text("-----BEGIN CERTIFICATE-----\nbroken\n-----END CERTIFICATE-----\n")
    found = doctor.examine({"verify": str(bundle)})
    assert found.of("failed") == ["connection"]
    assert "has no certificates in PEM format, or a damaged one" in found["connection"]["detail"]
