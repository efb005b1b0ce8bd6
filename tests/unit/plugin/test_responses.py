"""Responses of the page: errors, odd values of the service, files."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any
from urllib.parse import quote

import pytest
from fastapi.testclient import TestClient
from hypothesis import example, given
from hypothesis import strategies as st

from airflow_provider_workflow.emulator.server import EmulatorServer
from airflow_provider_workflow.plugin import service
from airflow_provider_workflow.plugin.responses import MAX_FIELD_LENGTH, PageError, invalid
from airflow_provider_workflow.plugin.service import MAX_CACHED_ITEMS, MAX_REQUESTS_AT_ONCE, Key
from tests.unit.cli.dead_letter_runs import INBOX_ID, PAYLOAD, DeadLetterRuns, start
from tests.unit.client.isolation import forget
from tests.unit.fake_clock import FakeClock
from tests.unit.fuzz.budget import tries
from tests.unit.plugin.conftest import API, PAGE, Service

KEY = ("a connection", "inboxes")
TIMEOUT = 20


class Fetching:
    """Fetches of a service, each of which lasts until it is told what it brings."""

    def __init__(self) -> None:
        self.begun = 0
        self._began = threading.Semaphore(0)
        self._results: list[Future[Any]] = []
        self._pool = ThreadPoolExecutor(2 * MAX_REQUESTS_AT_ONCE)

    def fetch(self) -> Any:
        result: Future[Any] = Future()
        self._results.append(result)
        self.begun += 1
        self._began.release()
        return result.result(TIMEOUT)

    def start(self, key: Key = KEY) -> Future[Any]:
        """Ask in a thread, and wait until it fetches."""
        answer = self.ask(key)
        assert self._began.acquire(timeout=TIMEOUT)
        return answer

    def ask(self, key: Key = KEY) -> Future[Any]:
        return self._pool.submit(service.cached, key, self.fetch)

    def bring(self, value: Any) -> None:
        """End all fetches."""
        results, self._results = self._results, []
        for result in results:
            result.set_result(value)

    def close(self) -> None:
        self.bring({})
        self._pool.shutdown()


@pytest.fixture
def fetching() -> Iterator[Fetching]:
    fetching_service = Fetching()
    yield fetching_service
    fetching_service.close()


def fail() -> Any:
    raise invalid("no")


def test_an_answer_is_kept_for_10_seconds_and_the_listeners_for_a_minute(fake_clock: FakeClock) -> None:
    values = iter([{"n": 1}, {"n": 2}, {"n": 3}])

    def count_of(key: Key = KEY) -> int:
        return int(service.cached(key, lambda: next(values))["n"])

    assert [count_of(), count_of(service.LISTENERS)] == [1, 2]
    fake_clock.advance(9.9)
    assert count_of() == 1
    fake_clock.advance(0.2)
    assert count_of() == 3
    fake_clock.advance(49)
    assert count_of(service.LISTENERS) == 2
    fake_clock.advance(1)
    assert service.known(service.LISTENERS) is None


def test_an_error_is_kept_too_and_each_reader_gets_one_of_its_own() -> None:
    """An exception that is raised twice keeps the frames of both, which hold what the service sent."""
    errors = []
    for fetch in (fail, lambda: pytest.fail("fetched")):
        with pytest.raises(PageError, match="no") as error_info:
            service.cached(KEY, fetch)
        errors.append(error_info.value)

    error = service.known(KEY)
    assert errors[0] is not errors[1]
    assert errors[0].body == errors[1].body == invalid("no").body
    assert isinstance(error, PageError)
    assert (error.__traceback__, error.__context__) == (None, None)


def test_what_a_change_makes_wrong_is_forgotten() -> None:
    service.cached(("another",), lambda: {"n": "kept"})
    service.cached(KEY, lambda: {"n": "before"})

    service.forget(KEY[0])

    assert service.cached(KEY, lambda: {"n": "after"}) == {"n": "after"}
    assert service.cached(("another",), lambda: pytest.fail("fetched")) == {"n": "kept"}


def test_requests_for_the_same_wait_for_one_fetch(fetching: Fetching) -> None:
    first = fetching.start()
    other_requests = [fetching.ask() for _ in range(MAX_REQUESTS_AT_ONCE - 1)]

    fetching.bring({"n": "a"})

    assert [request.result(TIMEOUT) for request in (first, *other_requests)] == [
        {"n": "a"}
    ] * MAX_REQUESTS_AT_ONCE
    assert fetching.begun == 1


def test_at_most_8_requests_are_in_progress_and_none_queues(fetching: Fetching) -> None:
    for number in range(MAX_REQUESTS_AT_ONCE):
        fetching.start(("a connection", str(number)))

    for key in (("a connection", "0"), ("another", "9")):
        with pytest.raises(PageError) as error_info:
            service.cached(key, fetching.fetch)
        assert (error_info.value.status, error_info.value.code, error_info.value.retry_after) == (
            503,
            "busy",
            1,
        )
    with pytest.raises(PageError), service.slot():
        raise AssertionError
    assert fetching.begun == MAX_REQUESTS_AT_ONCE == 8


def test_what_is_kept_has_a_limit_of_items_and_what_was_used_last_stays(fake_clock: FakeClock) -> None:
    """A reader chooses the keys: with each cursor the service gives another 500 inboxes."""
    assert fake_clock
    fetched: list[int] = []
    service.cached(KEY, lambda: {"inboxes": ["of use"]})
    answers: Any = [{"inboxes": 500 * ["an inbox"]}, {"by_id": dict.fromkeys(range(500))}]

    def again(number: int) -> Any:
        fetched.append(number)
        return {}

    for number in range(1_000):
        service.cached((*KEY, str(number)), answers[number % 2].copy)
        service.cached(KEY, lambda: pytest.fail("dropped"))
    for number in range(1_000):
        service.cached((*KEY, str(number)), lambda number=number: again(number))  # type: ignore[misc]

    assert 0 < 1_000 - len(fetched) <= MAX_CACHED_ITEMS // 500
    huge = {"inboxes": 2 * MAX_CACHED_ITEMS * ["an inbox"]}
    assert service.cached((*KEY, "huge"), lambda: huge) == huge


def test_a_slot_is_free_again_after_an_error_that_nobody_expected() -> None:
    for _ in range(2 * MAX_REQUESTS_AT_ONCE):
        with pytest.raises(ZeroDivisionError):
            service.cached(KEY, lambda: 1 // 0)
    with ExitStack() as stack:
        for _ in range(MAX_REQUESTS_AT_ONCE):
            stack.enter_context(service.slot())


INBOX = f"{API}/inboxes/{INBOX_ID}"
CHANGE = {"content": "{}", "headers": PAGE}
REQUESTS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("GET", f"{API}/inboxes", {}),
    ("GET", INBOX, {}),
    ("GET", f"{INBOX}/summary", {}),
    ("GET", f"{INBOX}/messages", {}),
    ("GET", f"{INBOX}/messages?cursor=next", {}),
    ("GET", f"{INBOX}/dead-letters", {}),
    ("GET", f"{API}/dead-letters", {}),
    ("POST", f"{INBOX}/pause", CHANGE),
    ("POST", f"{INBOX}/resume", CHANGE),
    # A list of inboxes with the summaries that are known by then.
    ("GET", f"{API}/inboxes?cursor=", {}),
)
"""All that uses the service."""
FIELDS = {
    *("inboxes", "findings", "messages", "dead_letters", "next", "fetched_at", "is_partial", "inbox"),
    *("id", "name", "status", "paused_reason", "paused_text", "listeners", "summary", "runs"),
    *("counts", "available", "leased", "quarantined", "oldest_created_at"),
    *("title", "failing_since", "created_at", "delivery_count", "error_message"),
    *("is_alarm", "no_listener", "check", "detail", "dags"),
    *("possible_duplicate", "run", "dead_letter", "error", "code", "fix", "large_runs", "unnamed_dags"),
}
"""What the page knows: an object of the service has other names."""


def is_sound(value: Any) -> bool:
    """Whether the page can show a decoded answer: it knows all names, and texts and numbers have limits."""
    if isinstance(value, dict):
        return value.keys() <= FIELDS and all(map(is_sound, value.values()))
    if isinstance(value, list):
        return len(value) <= 700 and all(isinstance(item, dict) and is_sound(item) for item in value)
    if isinstance(value, str):
        # For half of a surrogate pair a browser cannot make an address.
        return len(value) <= MAX_FIELD_LENGTH and not re.search("[\ud800-\udfff]", value)
    return value is None or type(value) is bool or (type(value) is int and 0 <= value < 2**53)


def no_number(word: str) -> Any:
    raise AssertionError(f"{word} is not JSON")


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
MARKUP = {"dangerouslySetInnerHTML": {"__html": "x"}}
LISTS = st.fixed_dictionaries({"results": st.lists(USABLE, max_size=4), "next": NEXT}) | VALUES | (
    st.fixed_dictionaries({"results": st.lists(THINGS, max_size=4), "next": NEXT})
)  # fmt: skip


@tries(20)
@given(inbox=THINGS, inboxes=LISTS, messages=LISTS)
@example(
    inbox={"id": "a", "status": "paused", "paused_reason": ["x"], "name": MARKUP},
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
        "results": [
            {"id": "a", "status": MARKUP, "created_at": "0001-01-01T00:00:00+14:00"},
            {"id": "b", "message_attributes": dict.fromkeys(NAMES[-3:], MARKUP)},
        ],
        "next": "http://x/?cursor=\ud800" + 10_000 * "x",
    },
)
def test_no_value_of_the_service_breaks_an_answer(
    op: TestClient, answering_service: Service, inbox: Any, inboxes: Any, messages: Any
) -> None:
    answering_service.bodies = {
        "inbox": json.dumps(inbox),
        "list": json.dumps(inboxes),
        "messages": json.dumps(messages),
    }
    forget()
    for method, path, more in REQUESTS:
        response = op.request(method, path, **more)
        body = json.loads(response.content, parse_constant=no_number)
        assert response.status_code in (200, 400, 404, 502, 504), (path, response.status_code)
        assert is_sound(body), (path, body)
        assert ("error" in body) is (response.status_code != 200), (path, body)


ASKED = st.sampled_from(["\0", "a\0b", "x" * 5000, "a b", "%", "?", "#", "..", "\u2028", "é"]) | st.text(
    st.characters(exclude_categories=("Cs",)), min_size=1, max_size=10
)


@tries(15)
@given(value=ASKED)
@example(value="\0")
@example(value="x" * (MAX_FIELD_LENGTH + 1))
def test_no_address_breaks_an_answer(op: TestClient, connected_emulator: EmulatorServer, value: str) -> None:
    forget()
    part = quote(value, safe="")
    for path in (
        f"{API}/inboxes?cursor={part}",
        f"{API}/inboxes/{part}",
        f"{API}/inboxes/{part}/summary",
        f"{API}/inboxes/{part}/messages",
        f"{API}/inboxes/{part}/dead-letters",
        f"/workflow/api/connections/{part}/inboxes",
        f"/workflow/api/connections/{part}/dead-letters",
    ):
        response = op.get(path)
        assert response.status_code in (200, 307, 400, 403, 404), (path, response.status_code)
        json.loads(response.content, parse_constant=no_number)
        if "\0" in value or len(value) > MAX_FIELD_LENGTH:
            assert (response.status_code, response.json()["error"]["code"]) == (400, "invalid"), path
    assert connected_emulator


@tries(20)
@given(fields=st.dictionaries(st.sampled_from(["dag_id", "run_id", "trigger_dag_id", "reason"]), VALUES))
@example(fields=[])
@example(fields={"dag_id": "\ud800", "run_id": "workflow__dead__a"})
@example(fields={"dag_id": "dead", "run_id": "workflow__dead__\ud800"})
@example(fields={"dag_id": "dead", "run_id": "workflow__dead__\0"})
def test_no_replay_request_breaks_an_answer(
    op: TestClient, connected_emulator: EmulatorServer, fields: Any
) -> None:
    assert connected_emulator
    response = op.post(f"{INBOX}/dead-letters/replay", content=json.dumps(fields), headers=PAGE)

    assert response.status_code in (400, 404)
    assert is_sound(response.json())
    assert "error" in response.json()


NAME = '<script>alert("1")</script> Grüße \'"&'


@pytest.mark.parametrize("count", ["²", "9" * 5000, "-1"])
def test_a_run_with_any_conf_breaks_nothing(
    op: TestClient, dead_letter_runs: DeadLetterRuns, connected_emulator: EmulatorServer, count: str
) -> None:
    inbox = connected_emulator.open_inbox("orders")
    start("a", inbox, created_at="9999-12-31T23:59:59-14:00", message_attributes={"lease_count": count})
    run_id = dead_letter_runs.bury("b", inbox_id=inbox, changes={"delivery_count": count})

    (dead_letter,) = op.get(f"{API}/inboxes/{inbox}/dead-letters").json()["dead_letters"]
    messages = op.get(f"{API}/inboxes/{inbox}/messages").json()["messages"]

    assert (dead_letter["run_id"], dead_letter["delivery_count"]) == (run_id, None)
    assert {message["id"]: message["delivery_count"] for message in messages} == {"a": 0, "b": 0}
    assert op.get(f"{API}/inboxes/{inbox}/summary").status_code == 200


def test_long_strings_of_a_run_are_cut(
    op: TestClient, dead_letter_runs: DeadLetterRuns, connected_emulator: EmulatorServer
) -> None:
    inbox, long = connected_emulator.open_inbox("orders"), 100_000 * "x"
    start(long, inbox)
    names = ("message_id", "reason", "cause", "target_dag_id")
    dead_letter_runs.bury(long, inbox_id=inbox, changes=dict.fromkeys(names, long))

    answers = [op.get(f"{API}/inboxes/{inbox}/{path}") for path in ("messages", "dead-letters")]

    assert ["x..." in answer.text for answer in answers] == [True, True]
    assert max(len(answer.text) for answer in answers) < 10_000


def test_names_and_errors_stay_text(op: TestClient, connected_emulator: EmulatorServer) -> None:
    inbox = connected_emulator.open_inbox(NAME)
    text = f"{NAME}\nforged line"
    connected_emulator.put(NAME, {"text": PAYLOAD}, ids=["a"], attributes={"error_message": text})

    inboxes, messages = op.get(f"{API}/inboxes"), op.get(f"{API}/inboxes/{inbox}/messages")

    assert inboxes.json()["inboxes"][0]["name"] == NAME
    assert messages.json()["messages"][0]["error_message"] == f"{NAME} forged line"
    for response in (inboxes, messages):
        assert response.headers["Content-Type"] == "application/json"
        assert response.headers["X-Content-Type-Options"] == "nosniff"
        assert response.headers["Cache-Control"] == "no-store"
        assert PAYLOAD not in response.text
        assert connected_emulator.client_secret not in response.text
