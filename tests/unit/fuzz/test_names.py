"""Hostile names in addresses go to the right place or are refused, and hostile ids of messages are hashed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import httpx
import pytest
from airflow.models.dagrun import DagRun
from airflow.sdk import Asset
from hypothesis import example, given
from hypothesis import strategies as st

from airflow_provider_workflow.assets import SCHEME, create_asset, sanitize_uri
from airflow_provider_workflow.client import api, inboxes
from airflow_provider_workflow.dispatch import runs
from airflow_provider_workflow.pytest_plugin import reset as forget
from tests.unit.client.isolation import isolated
from tests.unit.client.matrix.cells import good
from tests.unit.client.scripted_server import ScriptedServer, answer
from tests.unit.client.senders import SENDERS, Sender
from tests.unit.fuzz.budget import tries
from tests.unit.fuzz.payloads import ANY_TEXT, HOSTILE_NAMES

__all__ = ["isolated"]

ANY_NAME = (
    st.sampled_from(HOSTILE_NAMES)
    | ANY_TEXT.map(lambda text: text[:2000])
    | st.text("./%?#&=;+2eEfF \\:@", max_size=12)
)


def sendable(text: str) -> bool:
    return bool(text.strip()) and text.encode(errors="ignore").decode() == text


PARTS = st.sampled_from(HOSTILE_NAMES) | st.text("ab/%2fF:@?#[]&=. \\", max_size=10) | ANY_NAME
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
@given(one=st.tuples(CONNECTIONS, INBOXES), other=st.tuples(CONNECTIONS, INBOXES))
@example(one=("a", "b/c"), other=("a", "b%2Fc"))
@example(one=("a", "B"), other=("a", "b"))
@example(one=("A", "b"), other=("a", "b"))
def test_two_inboxes_are_two_assets(one: tuple[str, str], other: tuple[str, str]) -> None:
    uris = {create_asset(workflow_conn_id=name[0], inbox=name[1]).uri for name in (one, other)}
    assert len(uris) == len({one, other})


@tries(100)
@given(before=st.sampled_from(("", "user", "a%40b")), after=PARTS)
def test_credentials_in_an_address_are_refused_and_not_repeated(before: str, after: str) -> None:
    with pytest.raises(ValueError) as error_info:
        sanitize_uri(urlsplit(f"{SCHEME}://{before}:{SECRET}@{after}"))
    assert SECRET not in str(error_info.value)


PREFIX = ["", "trigger-inbox", "v1", "inboxes"]


@pytest.fixture(scope="module")
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer() as server_of_test:
        yield server_of_test


@pytest.fixture(scope="module", params=SENDERS)
def send(request: pytest.FixtureRequest, server: ScriptedServer) -> Iterator[Sender]:
    sender = SENDERS[request.param](server.settings())
    yield sender
    sender.close()


def parts_of(request: bytes) -> tuple[str, list[str], list[tuple[str, str]]]:
    """Method, decoded parts of the path, and decoded query of a request, as a server reads them."""
    method, target, _ = request.split(b"\r\n", 1)[0].decode("ascii").split(" ")
    parts = urlsplit("http://host" + target)
    query = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query), errors="strict")
    return method, [unquote(part, errors="strict") for part in parts.path.split("/")], query


@pytest.mark.parametrize(
    ("make", "method", "path"),
    [(api.get_inbox, "GET", PREFIX), (api.unenroll_promotion, "DELETE", ["", "v2", "promotions"])],
)
@tries(60)
@given(name=ANY_NAME)
@example(name="../../v2/guess")
@example(name="a\r\nX-Injected: yes")
@example(name="\ud800")
@example(name="token")
def test_a_name_is_one_part_of_the_path_or_refused_by_name(
    make: Any, method: str, path: list[str], send: Sender, server: ScriptedServer, name: str
) -> None:
    server.script(good(make.__name__))
    if not sendable(name) or name in (".", ".."):
        with pytest.raises(ValueError, match=r"^(inbox|enrollment)_id (must|cannot) be"):
            send(make(name))
        assert server.requests == []
        return
    send(make(name))
    (request,) = server.requests
    assert parts_of(request) == (method, [*path, name], [])
    assert b"X-Injected" not in b"\n".join(request.splitlines()[1:])


@tries(60)
@given(name=ANY_NAME)
@example(name="\ud800")
def test_a_name_is_looked_up_as_it_is_or_refused(send: Sender, server: ScriptedServer, name: str) -> None:
    forget()
    inbox = {"id": "the-id", "name": name, "status": "active"}
    server.script(answer(200, {"results": [inbox], "next": None}), answer(200, inbox))
    if not sendable(name) or name in (".", ".."):
        with pytest.raises(ValueError, match=r"^inbox(_id)? (must|cannot) be"):
            send.run(inboxes.at_inbox, name, api.get_inbox)
        assert server.requests == []
        return
    assert send.run(inboxes.at_inbox, name, api.get_inbox)["id"] == "the-id"
    looked, lookup = map(parts_of, server.requests)
    assert looked == ("GET", PREFIX, [("limit", "100"), ("offset", "0"), ("name", name)])
    assert lookup == ("GET", [*PREFIX, "the-id"], [])


INBOX = "an-inbox"
ANY_ID = (
    st.sampled_from(HOSTILE_NAMES)
    | ANY_TEXT
    | st.text("abAB01.-_~:+/% \n", max_size=12)
    | st.uuids().map(str)
)


def digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


@tries(400)
@given(message_id=ANY_ID)
@example(message_id=digest("one"))
def test_every_message_id_gets_a_run_id_that_airflow_allows(message_id: str) -> None:
    run_id = runs.run_id_of(message_id, INBOX)
    assert DagRun(run_id=run_id).run_id == run_id
    assert len(run_id) <= 250
    # And it is the same at the other end of an address.
    address = httpx.URL("http://airflow/execution/").join(f"dag-runs/handle/{run_id}")
    assert address.path == f"/execution/dag-runs/handle/{run_id}"
    assert runs.run_id_of(message_id, INBOX) == run_id


@tries(400)
@given(ids=st.lists(ANY_ID, min_size=2, max_size=20, unique=True), hashed=st.booleans())
@example(ids=list(HOSTILE_NAMES), hashed=True)
def test_no_two_messages_get_the_same_run_id(ids: list[str], hashed: bool) -> None:
    # Somebody may also send the digests of ids as ids.
    every = {*ids, *(digest(message_id) for message_id in ids)} if hashed else set(ids)
    assert len({runs.run_id_of(message_id, INBOX) for message_id in every}) == len(every)
