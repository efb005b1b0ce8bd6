"""Hostile names in addresses of assets and of requests: they go to the right place, or are refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlsplit

import pytest
from airflow.sdk import Asset
from hypothesis import example, given
from hypothesis import strategies as st

from airflow_provider_workflow.assets import SCHEME, create_asset, sanitize_uri
from airflow_provider_workflow.client import api, inboxes
from airflow_provider_workflow.pytest_plugin import reset as forget
from tests.unit.client.isolation import isolated
from tests.unit.client.matrix.cells import good
from tests.unit.client.scripted import ScriptedServer, answer
from tests.unit.client.senders import SENDERS, Sender
from tests.unit.fuzz.budget import tries
from tests.unit.fuzz.payloads import ANY_TEXT

__all__ = ["isolated"]

HOSTILE = (
    *("", " ", ".", "..", "...", "../", "../../v2/guess", "..%2f..%2f", "%2e%2e", "%2e%2e%2f", "/", "//"),
    *("//evil.example.com", "a/b", "a%2fb", "a?b=c", "a#b", "a&b=c", "a;b", "a=b", "a+b", "a b", " a", "a "),
    *("%", "%%", "%00", "%zz", "%E9", "\0", "\n", "a\r\nX-Injected: yes", "\t", "\\", "..\\..\\", "\x7f"),
    *("\x80", "\xe9", "e\u0301", "\u2028", "\u202e", "\U0001f600", "\ud800", "a\udfff", "\u0661\u0662", "@"),
    *("user:pw@evil.example.com", "http://evil.example.com/", ":80", "[::1]", "x" * 100, "x" * 5000),
    *("é" * 1000, "~", "*", "!", "'", '"', "<script>", "{}", "|", "^", "`", "messages", "lease"),
)
ANY_NAME = (
    st.sampled_from(HOSTILE)
    | ANY_TEXT.map(lambda text: text[:2000])
    | st.text("./%?#&=;+2eEfF \\:@", max_size=12)
)


def sendable(text: str) -> bool:
    return bool(text.strip()) and text.encode(errors="ignore").decode() == text


PARTS = st.sampled_from(HOSTILE) | st.text("ab/%2fF:@?#[]&=. \\", max_size=10) | ANY_NAME
ADDRESSES = st.builds(
    "{}{}{}{}{}".format,
    st.just(f"{SCHEME}://"),
    PARTS,
    st.sampled_from(("", "/", "//", "?", "#")),
    PARTS,
    PARTS,
) | st.builds("{}{}".format, st.just(f"{SCHEME}:"), PARTS)
SECRET = "hunter2-secret"
INBOXES = ANY_NAME.map(lambda name: name[:100]).filter(sendable)
CONNECTIONS = ANY_NAME.map(lambda name: name[:20]).filter(sendable)


def sanitized(address: str) -> str | None:
    """The one form of an address, by Airflow's own way to it; None where it is refused."""
    try:
        return Asset("x", address).uri
    except ValueError:
        return None


@tries(300)
@given(address=ADDRESSES)
@example(address=f"{SCHEME}://[::1/inbox")
@example(address=f"{SCHEME}://conn/%ff")
@example(address=f"{SCHEME}://conn/a%2Fb?x=y#z")
@example(address=f"{SCHEME}://conn/\ud800")
def test_an_address_has_one_form_or_is_refused(address: str) -> None:
    form = sanitized(address)
    if form is None:
        return
    assert form.isascii()
    assert sanitized(form) == form
    parts = urlsplit(form)
    connection, inbox = unquote(parts.netloc), unquote(parts.path[1:])
    # It is what whoever writes it properly writes.
    assert form == create_asset(inbox=inbox, workflow_conn_id=connection).uri
    assert (parts.query, parts.fragment, parts.path.count("/")) == ("", "", 1)


@tries(100)
@given(connection=CONNECTIONS, inbox=INBOXES, data=st.data())
def test_however_its_characters_are_escaped_an_address_means_the_same(
    connection: str, inbox: str, data: st.DataObject
) -> None:
    def escaped(text: str) -> str:
        safe = data.draw(st.sampled_from(("", "!$'()*,;=", "abcxyzABC-._~")))
        written = quote(text, safe=safe)
        return written.lower() if data.draw(st.booleans()) and text.islower() else written

    proper = create_asset(inbox=inbox, workflow_conn_id=connection).uri
    assert sanitized(f"{SCHEME}://{escaped(connection)}/{escaped(inbox)}") == proper


@tries(100)
@given(one=st.tuples(CONNECTIONS, INBOXES), other=st.tuples(CONNECTIONS, INBOXES))
@example(one=("a", "b/c"), other=("a", "b%2Fc"))
@example(one=("a", "B"), other=("a", "b"))
@example(one=("A", "b"), other=("a", "b"))
def test_two_inboxes_are_two_assets(one: tuple[str, str], other: tuple[str, str]) -> None:
    uris = {create_asset(workflow_conn_id=each[0], inbox=each[1]).uri for each in (one, other)}
    assert len(uris) == len({one, other})


@tries(100)
@given(before=st.sampled_from(("", "user", "a%40b")), after=PARTS)
def test_credentials_in_an_address_are_refused_and_not_repeated(before: str, after: str) -> None:
    with pytest.raises(ValueError) as refused:
        sanitize_uri(urlsplit(f"{SCHEME}://{before}:{SECRET}@{after}"))
    assert SECRET not in str(refused.value)


PREFIX = ["", "trigger-inbox", "v1", "inboxes"]

CALLS: dict[str, tuple[Any, str, list[str | None]]] = {
    "get_inbox": (api.get_inbox, "GET", [*PREFIX, None]),
    "acknowledge_messages": (
        lambda name: api.acknowledge_messages(name, "l"),
        "POST",
        [*PREFIX, None, "messages", "ack"],
    ),
    "unenroll_promotion": (api.unenroll_promotion, "DELETE", ["", "v2", "promotions", None]),
}
"""Of each call its method and its path, in which a name takes the place of None."""


@pytest.fixture(scope="module")
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer() as made:
        yield made


@pytest.fixture(scope="module", params=SENDERS)
def send(request: pytest.FixtureRequest, server: ScriptedServer) -> Iterator[Sender]:
    sender = SENDERS[request.param](server.settings())
    yield sender
    sender.close()


def asked(request: bytes) -> tuple[str, list[str], list[tuple[str, str]]]:
    """Method, decoded parts of the path, and decoded query of a request, as a server reads them."""
    method, target, _ = request.split(b"\r\n", 1)[0].decode("ascii").split(" ")
    parts = urlsplit("http://host" + target)
    query = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query), errors="strict")
    return method, [unquote(part, errors="strict") for part in parts.path.split("/")], query


@pytest.mark.parametrize("call", CALLS)
@tries(60)
@given(name=ANY_NAME)
@example(name="../../v2/guess")
@example(name="a\r\nX-Injected: yes")
@example(name="\ud800")
@example(name="token")
def test_a_name_is_one_part_of_the_path_or_refused_by_name(
    call: str, send: Sender, server: ScriptedServer, name: str
) -> None:
    make, method, path = CALLS[call]
    server.script(good(call))
    if not sendable(name) or name in (".", ".."):
        with pytest.raises(ValueError, match=r"^(inbox|enrollment)_id (must|cannot) be"):
            send(make(name))
        assert server.requests == []
        return
    send(make(name))
    (request,) = server.requests
    assert asked(request) == (method, [name if part is None else part for part in path], [])
    assert b"X-Injected" not in b"\n".join(request.splitlines()[1:])


@tries(60)
@given(name=ANY_NAME)
@example(name="\ud800")
def test_a_name_is_looked_up_as_it_is_or_refused(send: Sender, server: ScriptedServer, name: str) -> None:
    forget()
    found = {"id": "the-id", "name": name, "status": "active"}
    server.script(answer(200, {"results": [found], "next": None}), answer(200, found))
    exchange = inboxes.at_inbox(server.settings(), name, api.get_inbox)
    if not sendable(name) or name in (".", ".."):
        with pytest.raises(ValueError, match=r"^inbox(_id)? (must|cannot) be"):
            send.run(exchange)
        assert server.requests == []
        return
    assert send.run(exchange)["id"] == "the-id"
    looked, got = map(asked, server.requests)
    assert looked == ("GET", PREFIX, [("limit", "100"), ("offset", "0"), ("name", name)])
    assert got == ("GET", [*PREFIX, "the-id"], [])


@tries(60)
@given(value=ANY_NAME)
@example(value="\ud800")
def test_what_a_query_holds_arrives_as_it_is_or_is_refused(
    send: Sender, server: ScriptedServer, value: str
) -> None:
    makers = {
        "name": (lambda: api.list_inboxes(name=value), "list_inboxes"),
        "status": (lambda: api.list_inboxes(status=value), "list_inboxes"),
        "cursor": (lambda: api.list_messages("i", cursor=value), "list_messages"),
        "apps": (lambda: api.list_templates(apps=[value]), "list_templates"),
    }
    for field, (make, call) in makers.items():
        server.script(good(call))
        if value.encode(errors="ignore").decode() != value or (field == "apps" and not value.strip()):
            with pytest.raises(ValueError, match=f"^{field} must be"):
                send(make())
            assert server.requests == []
            continue
        send(make())
        assert dict(asked(server.requests[0])[2])[field] == value


@tries(60)
@given(text=ANY_NAME.filter(bool))
def test_what_a_body_holds_arrives_whatever_it_is(send: Sender, server: ScriptedServer, text: str) -> None:
    server.script(good("acknowledge_messages"))
    send(api.acknowledge_messages("i", text, [text]))
    body = json.loads(server.requests[0].partition(b"\r\n\r\n")[2])
    assert body == {"lease_id": text, "message_ids": [text]}
