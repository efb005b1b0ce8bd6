"""Hostile names in paths and queries: the request goes to the right address, or is not sent at all."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import pytest
from hypothesis import example, given

from airflow_provider_workflow.client import api, inboxes
from airflow_provider_workflow.pytest_plugin import reset as forget
from tests.unit.client.isolation import isolated
from tests.unit.client.matrix.bodies import GOOD
from tests.unit.client.scripted import ScriptedServer, answer
from tests.unit.client.senders import SENDERS, Sender
from tests.unit.fuzz.budget import tries
from tests.unit.fuzz.names import ANY_NAME, sendable

__all__ = ["isolated"]

PREFIX = ["", "trigger-inbox", "v1", "inboxes"]

CALLS: dict[str, tuple[Any, str, list[str]]] = {
    "get_inbox": (api.get_inbox, "GET", []),
    "acknowledge_messages": (lambda name: api.acknowledge_messages(name, "l"), "POST", ["messages", "ack"]),
}


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
    make, method, rest = CALLS[call]
    server.script(answer(200, GOOD[call]))
    if not sendable(name) or name in (".", ".."):
        with pytest.raises(ValueError, match=r"^inbox_id (must|cannot) be"):
            send(make(name))
        assert server.requests == []
        return
    send(make(name))
    (request,) = server.requests
    assert asked(request) == (method, [*PREFIX, name, *rest], [])
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
        server.script(answer(200, GOOD[call]))
        if value.encode(errors="ignore").decode() != value or (field == "apps" and not value.strip()):
            with pytest.raises(ValueError, match=f"^{field} must be"):
                send(make())
            assert server.requests == []
            continue
        send(make())
        assert dict(asked(server.requests[0])[2])[field] == value


@tries(60)
@given(value=ANY_NAME)
def test_an_enrollment_is_one_part_of_the_path_or_refused(
    send: Sender, server: ScriptedServer, value: str
) -> None:
    server.script(answer(204))
    if not sendable(value) or value in (".", ".."):
        with pytest.raises(ValueError, match=r"^enrollment_id (must|cannot) be"):
            send(api.unenroll_promotion(value))
        assert server.requests == []
        return
    send(api.unenroll_promotion(value))
    assert asked(server.requests[0])[1] == ["", "v2", "promotions", value]


@tries(60)
@given(text=ANY_NAME.filter(bool))
def test_what_a_body_holds_arrives_whatever_it_is(send: Sender, server: ScriptedServer, text: str) -> None:
    import json

    server.script(answer(200, GOOD["acknowledge_messages"]))
    send(api.acknowledge_messages("i", text, [text]))
    body = json.loads(server.requests[0].partition(b"\r\n\r\n")[2])
    assert body == {"lease_id": text, "message_ids": [text]}
