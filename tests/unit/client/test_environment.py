"""Proxies hold for both senders alike, in every form (``.netrc`` and other hosts: see ``matrix``)."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_workflow.client import api, errors
from airflow_provider_workflow.client.settings import proxy_for
from tests.traces import texts, told
from tests.unit.client import certificates
from tests.unit.client.calls import SOME_ID
from tests.unit.client.conftest import MakeSender
from tests.unit.client.proxy import RecordingProxy
from tests.unit.client.scripted import ScriptedServer, answer

INBOX = answer(200, {"id": SOME_ID, "status": "active"})
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
