"""No token leaves for another host: redirects, ``next`` addresses, ``.netrc``, proxies, certificates."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_workflow.client import api, errors, inboxes
from airflow_provider_workflow.client.answers import request_of
from tests.unit.client import certificates
from tests.unit.client.calls import SOME_ID, make
from tests.unit.client.matrix.cells import ATTEMPTS, Expected, Outcome, Service, by, check, good
from tests.unit.client.scripted_server import ScriptedServer, answer
from tests.unit.client.senders import SENDERS, SyncSender

IDENTITIES: dict[str, list[bytes]] = {
    "get_inbox": [b"Bearer warm-token"],
    "app_token": [b"Basic " + base64.b64encode(b"an-id:a-secret")],
    "guess": [],
}
"""By call: who it says is asking."""


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[ScriptedServer]:
    """A server that nobody may speak to."""
    with ScriptedServer() as server:
        server.answers = [answer(200, {"id": "stolen", "status": "active"})]
        yield server


def locations(elsewhere: ScriptedServer) -> dict[str, tuple[bytes, str]]:
    """What ``Location`` says, and how an error names that."""
    port = str(elsewhere.port).encode()
    another_path = "redirects to another path, which is not followed"
    return {
        "another port": (b"http://127.0.0.1:%s/x" % port, "redirects to 127.0.0.1, which is not followed"),
        "another name": (b"http://user:pw@localhost:%s/x?y=z#f" % port, "redirects to localhost, which"),
        "no scheme": (b"//localhost:%s/x" % port, "redirects to localhost, which is not followed"),
        "another path": (b"/elsewhere", another_path),
        "an empty one": (b"", another_path),
        "another scheme": (b"file:///etc/passwd", another_path),
        "no address": (b"http://[::1/x", "redirects to an invalid URL, which is not followed"),
        "no port": (b"http://localhost:port/x", "redirects to localhost, which is not followed"),
        "no UTF-8": (b"http://\xff\xfe\xfd/x", "redirects to "),
        "a port too many": (b"http://localhost:99999999/x", "redirects to localhost, which"),
    }


@pytest.mark.parametrize("name", ["get_inbox", "lease_messages"])
@pytest.mark.parametrize("kind", SENDERS)
def test_no_redirect_is_followed(kind: str, name: str, service: Service, elsewhere: ScriptedServer) -> None:
    complaints = {}
    for status in (300, 301, 302, 303, 304, 305, 307, 308):
        for title, (location, says) in locations(elsewhere).items():
            head = b"HTTP/1.1 %d Any\r\nContent-Length: 0\r\nLocation: " % status
            outcome = service.play(kind, name, head + location + b"\r\n\r\n")
            texts = (f"{request_of(name)} was answered with {status}: it {says}", "configure the final URL")
            due = Expected(errors.WorkflowAPIError, texts, 1, has={"status": status})
            complaints[f"{status}, {title}"] = due.complaint(outcome)
            assert "pw" not in str(outcome.error)
    assert elsewhere.connections == 0
    check(complaints)


@pytest.mark.parametrize("kind", SENDERS)
def test_no_redirect_of_the_token_endpoint_is_followed(
    kind: str, service: Service, elsewhere: ScriptedServer
) -> None:
    away = answer(307, b"", {"Location": f"{elsewhere.url}/token"})
    outcome = service.play(kind, "get_inbox", b"", token=away, warm=False)
    says = ("The request for an access token was answered with 307: it redirects to 127.0.0.1",)
    check({"307": Expected(errors.WorkflowAPIError, says, 0, 1).complaint(outcome)})
    assert elsewhere.connections == 0


LISTINGS: dict[str, Callable[..., Any]] = {
    "inboxes": inboxes.all_inboxes,
    "messages": partial(inboxes.all_messages, inbox_id=SOME_ID),
    "a name": partial(inboxes.at_inbox, inbox="wanted", make=api.get_inbox),
}


@pytest.mark.parametrize(
    ("listing", "next_page"),
    [
        *((listing, "{elsewhere}/inboxes?offset=1&cursor=more") for listing in LISTINGS),
        ("messages", "http://[::1/inboxes?cursor=more#end"),
        ("messages", "?cursor=more"),
    ],
)
def test_the_next_page_comes_from_the_connections_own_host(
    listing: str, next_page: str, service: Service, elsewhere: ScriptedServer
) -> None:
    address = next_page.format(elsewhere=elsewhere.url)
    wanted_inbox = {"id": "2", "name": "wanted", "status": "active"}
    other_inboxes = [{**wanted_inbox, "id": str(n), "name": f"other {n}"} for n in (0, 1)]
    service.script(
        answer(200, {"results": other_inboxes, "next": address}),
        answer(200, {"results": [wanted_inbox], "next": None}),
        answer(200, wanted_inbox),
    )
    with closing(SyncSender(service.settings())) as sender:
        answer_of_listing = sender.run(LISTINGS[listing])
    assert (
        [inbox["id"] for inbox in answer_of_listing] == ["0", "1", "2"]
        if listing != "a name"
        else answer_of_listing == wanted_inbox
    )
    assert len(service.requests) == (3 if listing == "a name" else 2)
    assert (b"cursor=more " if listing == "messages" else b"offset=2") in service.requests[1].splitlines()[0]
    assert elsewhere.connections == 0


def headers(outcome: Outcome) -> list[list[bytes]]:
    """The ``Authorization`` headers of each request."""
    return [re.findall(rb"(?im)^authorization: (.*?)\r$", request) for request in outcome.requests]


def authorized(outcome: Outcome, name: str) -> str:
    """What is wrong with how a call said who is asking."""
    right = outcome.error is None and headers(outcome) == [IDENTITIES[name]]
    return "" if right else f"{headers(outcome)}, {outcome}"


@pytest.mark.specification("4 bearer", "9.1 credentials")
@pytest.mark.parametrize("kind", SENDERS)
def test_netrc_replaces_and_adds_no_credentials(
    kind: str, service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for file in (".netrc", "_netrc"):
        (tmp_path / file).write_text(
            "machine 127.0.0.1 login someone password else\ndefault login a password b\n"
        )
        (tmp_path / file).chmod(0o600)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
    check({name: authorized(service.play(kind, name, good(name)), name) for name in IDENTITIES})


@pytest.mark.parametrize("kind", SENDERS)
def test_every_call_goes_through_the_proxy_of_the_environment_and_not_past_it(
    kind: str, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A proxy is asked for the whole address of another host, and the service answers to it as if it were one.
    monkeypatch.setenv("HTTP_PROXY", service.url)
    monkeypatch.setenv("NO_PROXY", "other.invalid")
    for name in IDENTITIES:
        outcome = service.play(kind, name, good(name), base_url="http://service.invalid")
        check({name: authorized(outcome, name)})
        (request,) = outcome.requests
        assert request.startswith(f"{make(name).method} http://service.invalid/".encode())


@pytest.mark.parametrize("kind", SENDERS)
def test_a_proxy_that_is_away_means_that_nothing_was_sent(
    kind: str, service: Service, closed_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "lease_messages"
    monkeypatch.setenv("HTTP_PROXY", f"http://someone:proxy-pass@127.0.0.1:{closed_port}")
    outcome = service.play(kind, name, good(name), base_url="http://service.invalid")
    says = ("service.invalid cannot be reached through the proxy of the environment",)
    check({"away": Expected(errors.TransportError, says, 0, has={"sent": False}).complaint(outcome)})
    assert len(outcome.naps) == by(kind, ATTEMPTS) - 1
    assert "proxy-pass" not in str(outcome.error)


@pytest.fixture(scope="module")
def authorities(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, tuple[Service, str]]]:
    """Servers with a certificate each, and the file that makes a client trust it."""
    servers = {}
    with ExitStack() as stack:
        for name, days in {"good": (-1, 1), "expired": (-2, -1)}.items():
            context, trusted = certificates.make(tmp_path_factory.mktemp("authority"), days)
            servers[name] = (stack.enter_context(Service(tls=context)), str(trusted))
        yield servers


CASES = {
    # whose server, whose certificate is trusted, the name that is called, and where
    "self-signed": ("good", "expired", "127.0.0.1", "base_url"),
    "self-signed, of the token endpoint": ("good", "expired", "127.0.0.1", "token_url"),
    "expired": ("expired", "expired", "127.0.0.1", "base_url"),
    "of another name": ("good", "good", "localhost", "base_url"),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("kind", SENDERS)
def test_where_a_certificate_does_not_verify_no_call_and_no_secret_is_sent(
    kind: str, case: str, authorities: dict[str, tuple[Service, str]]
) -> None:
    server, trusted, host, field = CASES[case]
    (service, _), (_, verify) = authorities[server], authorities[trusted]
    before = service.connections
    url: Any = {field: f"https://{host}:{service.port}"}
    outcome = service.play(kind, "get_inbox", b"", verify=verify, warm=field == "base_url", **url)
    says = (f"the certificate of {host}:{service.port} does not verify",)
    due = Expected(errors.TransportError, says, 0, has={"sent": False, "permanent": True})
    check({case: due.complaint(outcome)})
    assert outcome.naps == []
    assert service.connections - before == 1
