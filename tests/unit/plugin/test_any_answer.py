"""Whatever the service answers, and whatever a browser requests, the page's API answers JSON of one shape."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
from fastapi.testclient import TestClient
from hypothesis import example, given
from hypothesis import strategies as st

from airflow_provider_workflow.emulator.server import EmulatorServer
from airflow_provider_workflow.plugin.responses import LONGEST_FIELD
from tests.unit.cli.burying import INBOX_ID
from tests.unit.client.isolation import forget
from tests.unit.client.scripted import Script, ScriptedServer, answer
from tests.unit.fuzz.budget import tries
from tests.unit.plugin.conftest import API, PAGE
from tests.unit.plugin.test_service import connect

INBOX = f"{API}/inboxes/{INBOX_ID}"
OPTIONAL_TEXT = (str, None)
RUN = ({"dag_id": str, "run_id": str, "state": str, "url": str}, None)
SUMMARY = {
    "counts": {"available": int, "leased": int, "quarantined": int},
    "is_partial": bool,
    "oldest_created_at": OPTIONAL_TEXT,
    "fetched_at": str,
}
CHANGED = {
    "id": str,
    "name": OPTIONAL_TEXT,
    "status": str,
    "paused_reason": OPTIONAL_TEXT,
    "paused_text": OPTIONAL_TEXT,
    "listeners": [{"dag_id": str, "is_paused": bool, "url": str}],
}
INBOXES = {
    "inboxes": [{**CHANGED, "summary": (SUMMARY, None), "runs": {}}],
    "next": OPTIONAL_TEXT,
    "fetched_at": str,
}
MESSAGE = {
    "id": OPTIONAL_TEXT,
    "status": OPTIONAL_TEXT,
    "created_at": OPTIONAL_TEXT,
    "delivery_count": int,
    "error_message": OPTIONAL_TEXT,
    "possible_duplicate": bool,
    "run": RUN,
    "dead_letter": RUN,
}
MESSAGES = {"messages": [MESSAGE], "next": OPTIONAL_TEXT, "fetched_at": str}
DEAD_LETTERS = {"dead_letters": [], "is_partial": bool, "fetched_at": str}
ERROR = {"error": {"code": str, "title": str, "fix": str}}
SHAPES: dict[tuple[str, str], tuple[Any, ...]] = {
    ("GET", f"{API}/inboxes"): (INBOXES,),
    ("GET", INBOX): (INBOXES,),
    ("GET", f"{INBOX}/summary"): (SUMMARY,),
    ("GET", f"{INBOX}/messages"): (MESSAGES, {**MESSAGES, "inbox": INBOXES}),
    ("GET", f"{INBOX}/messages?cursor=next"): (MESSAGES,),
    ("GET", f"{INBOX}/dead-letters"): (DEAD_LETTERS,),
    ("POST", f"{INBOX}/pause"): (CHANGED,),
    ("POST", f"{INBOX}/resume"): (CHANGED,),
}
"""The shapes of the answers of the routes that use the service; each may be an error as well."""
AGAIN = (("GET", f"{API}/inboxes?cursor="), (INBOXES,))
"""A list of inboxes with the summaries that are known by then."""


def fits(value: Any, shape: Any) -> bool:
    """Whether a decoded answer has a shape, and its strings and numbers have limits."""
    if isinstance(shape, tuple):
        return any(fits(value, one) for one in shape)
    if isinstance(shape, dict):
        return isinstance(value, dict) and value.keys() == shape.keys() and all(
            fits(value[name], part) for name, part in shape.items()
        )  # fmt: skip
    if isinstance(shape, list):
        return isinstance(value, list) and len(value) <= 700 and all(fits(part, shape[0]) for part in value)
    if shape is None:
        return value is None
    if shape is str:
        return isinstance(value, str) and len(value) <= LONGEST_FIELD and not is_half(value)
    return type(value) is shape and 0 <= value < 2**53


def is_half(text: str) -> bool:
    """Whether a string has half of a surrogate pair, for which a browser cannot make an address."""
    return any("\ud800" <= sign <= "\udfff" for sign in text)


def no_number(word: str) -> Any:
    raise AssertionError(f"{word} is not JSON")


class Service(ScriptedServer):
    """A service that answers each request, for an inbox, inboxes or messages, with one text."""

    def __init__(self) -> None:
        super().__init__()
        self.bodies: dict[str, str] = {}

    def reply(self, request: bytes) -> Script:
        path = request.split(b" ", 2)[1].partition(b"?")[0].decode()
        if path == "/token":
            return self.token
        kind = "messages" if path.endswith("/messages") else "list" if path.endswith("/inboxes") else "inbox"
        return answer(200, self.bodies[kind].encode())


@pytest.fixture
def service(connected: EmulatorServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    with Service() as server:
        connect(monkeypatch, connected, host=server.url, oauth_url=f"{server.url}/token")
        yield server


TEXTS = st.text(st.characters(exclude_categories=()), max_size=20) | st.sampled_from(
    ["", "constructor", "__proto__", "paused", "available", "x" * 100_000, "\ud800", "\0", "a/b",
     "0001-01-01T00:00:00Z", "9999-12-31T23:59:59-14:00", "2026-01-01T00:00:00Z", "http://[?cursor=\ud800"]
)  # fmt: skip
NUMBERS = st.integers() | st.floats() | st.sampled_from([float("inf"), float("nan"), 10**4000, -(10**400)])
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda values: st.lists(values, max_size=3) | st.dictionaries(TEXTS, values, max_size=3),
    max_leaves=6,
)
NAMES = (
    *("id", "status", "name", "key", "paused_reason", "created_at", "message_attributes"),
    *("lease_count", "error_message", "possible_duplicate_data"),
)
ATTRIBUTES = st.fixed_dictionaries({}, optional=dict.fromkeys(NAMES[-3:], VALUES))
NEXT = st.none() | st.just("http://x/?cursor=more") | VALUES
ODD = st.fixed_dictionaries({}, optional=dict.fromkeys(NAMES, VALUES))
"""An object that may be neither an inbox nor a message."""
USABLE = st.builds(
    lambda odd, own: {**odd, **own},
    ODD,
    st.fixed_dictionaries(
        {"id": TEXTS.filter(bool), "status": TEXTS.filter(bool)}, optional={"message_attributes": ATTRIBUTES}
    ),
)
"""One that the client takes for an inbox and for a message."""
THINGS = USABLE | ODD | VALUES
LISTS = st.fixed_dictionaries({"results": st.lists(USABLE, max_size=4), "next": NEXT}) | VALUES | (
    st.fixed_dictionaries({"results": st.lists(THINGS, max_size=4), "next": NEXT})
)  # fmt: skip


@tries(20)
@given(inbox=THINGS, inboxes=LISTS, messages=LISTS)
@example(
    inbox={"id": "a", "status": "paused", "paused_reason": ["x"]},
    inboxes={"results": [{"id": "\ud800", "status": "constructor", "name": "x" * 100_000}]},
    messages={"results": [{"id": float("inf"), "message_attributes": ["x"]}]},
)
@example(
    inbox={"id": "x" * 100_000, "status": "x" * 100_000, "name": 1},
    inboxes={"results": [{"id": "a", "status": "paused", "paused_reason": {"a": 1}}]},
    messages={"results": [{"id": "a", "status": [], "message_attributes": {"lease_count": 10**400}}]},
)
@example(
    inbox={"id": "a", "status": "active"},
    inboxes={"results": [{"id": "a", "status": "active"}], "next": "http://x/"},
    messages={
        "results": [{"id": "a", "status": "available", "created_at": "0001-01-01T00:00:00Z"}],
        "next": "http://x/?cursor=\ud800" + 10_000 * "x",
    },
)
def test_no_value_of_the_service_breaks_an_answer(
    op: TestClient, service: Service, inbox: Any, inboxes: Any, messages: Any
) -> None:
    service.bodies = {
        "inbox": json.dumps(inbox),
        "list": json.dumps(inboxes),
        "messages": json.dumps(messages),
    }
    forget()
    for (method, path), shapes in [*SHAPES.items(), AGAIN]:
        more = {"headers": PAGE, "content": "{}"} if method == "POST" else {}
        found = op.request(method, path, **more)  # type: ignore[arg-type]
        body = json.loads(found.content, parse_constant=no_number)
        if found.status_code == 200:
            assert fits(body, shapes), (path, body)
        else:
            assert found.status_code in (400, 404, 502, 504), (path, found.status_code)
            assert fits(body, ERROR), (path, body)


ASKED = st.sampled_from(["\0", "a\0b", "x" * 5000, "a b", "%", "?", "#", "..", "\u2028", "é"]) | st.text(
    st.characters(exclude_categories=("Cs",)), min_size=1, max_size=10
)


@tries(15)
@given(value=ASKED)
@example(value="\0")
@example(value="x" * (LONGEST_FIELD + 1))
def test_no_address_breaks_an_answer(op: TestClient, connected: EmulatorServer, value: str) -> None:
    forget()
    part = quote(value, safe="")
    for path in (
        f"{API}/inboxes?cursor={part}",
        f"{API}/inboxes/{part}",
        f"{API}/inboxes/{part}/summary",
        f"{API}/inboxes/{part}/messages",
        f"{API}/inboxes/{part}/dead-letters",
        f"/workflow/api/connections/{part}/inboxes",
    ):
        found = op.get(path)
        assert found.status_code in (200, 307, 400, 403, 404), (path, found.status_code)
        json.loads(found.content, parse_constant=no_number)
        if "\0" in value or len(value) > LONGEST_FIELD:
            assert (found.status_code, found.json()["error"]["code"]) == (400, "invalid"), path
    assert connected


@tries(20)
@given(fields=st.dictionaries(st.sampled_from(["dag_id", "run_id", "trigger_dag_id", "reason"]), VALUES))
@example(fields={"dag_id": "\ud800", "run_id": "workflow__dead__a"})
@example(fields={"dag_id": "dead", "run_id": "workflow__dead__\ud800"})
@example(fields={"dag_id": "dead", "run_id": "workflow__dead__\0"})
def test_no_request_for_a_replay_breaks_an_answer(
    op: TestClient, connected: EmulatorServer, fields: dict[str, Any]
) -> None:
    assert connected
    found = op.post(f"{INBOX}/dead-letters/replay", content=json.dumps(fields), headers=PAGE)

    assert found.status_code in (400, 404)
    assert fits(found.json(), ERROR)
