"""Rules of the emulator: state, journal, validation, rate limits."""

from __future__ import annotations

import shutil
import sqlite3
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from airflow_provider_workflow.emulator.clock import Clock, ManualClock
from airflow_provider_workflow.emulator.rules.core import Core
from airflow_provider_workflow.emulator.rules.errors import (
    InboxBody,
    ServiceError,
    Subscription,
    UpdateBody,
    invalid_value,
    resolve_app_key,
)
from airflow_provider_workflow.emulator.rules.oauth import INBOX
from airflow_provider_workflow.emulator.rules.store import Store
from airflow_provider_workflow.emulator.settings import Settings
from tests.unit.emulator.conftest import SUBSCRIPTION


class Recorder(Core):
    def __init__(self) -> None:
        super().__init__(ManualClock(), Settings())
        self.events: list[str] = []

    def commit(self) -> None:
        self.events.append("commit")


def test_nothing_is_announced_before_it_is_durable() -> None:
    core = Recorder()
    core.listeners.append(lambda inbox_id: core.events.append(f"announced {inbox_id}"))
    with core:
        with core:
            core.announce("orders")
        assert core.events == []
    assert core.events == ["commit", "announced orders"]


def test_messages_put_from_many_threads_are_all_there(store: Store, inbox_id: str) -> None:
    def put() -> None:
        for _ in range(50):
            store.messages.put(inbox_id, [{}])

    threads = [threading.Thread(target=put) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert store.inboxes.get(inbox_id).counters["put"] == 400
    leased = [store.messages.lease(inbox_id, lease_limit=100)["results"] for _ in range(5)]
    assert [len(each) for each in leased] == [100, 100, 100, 100, 0]


def test_a_moved_clock_tells_and_can_be_moved_back() -> None:
    for clock in (ManualClock(), Clock()):
        heard: list[float] = []
        clock.listeners.append(lambda clock=clock, heard=heard: heard.append(clock.offset))  # type: ignore[misc]
        before = clock.now()
        clock.advance(100)
        assert 100 <= clock.now() - before < 101
        clock.set_offset(0)
        assert heard == [100, 0]


BASIC = ("demo-client", "demo-secret")


@pytest.fixture
def reopen(tmp_path: Path) -> Iterator[Callable[[], Store]]:
    """Open the state as a ``kill -9`` of the store before would leave it, in a copy of its file."""
    opened: list[Store] = []

    def again() -> Store:
        number = len(opened)
        for path in tmp_path.glob(f"{number - 1}.db*"):
            shutil.copy(path, path.with_name(path.name.replace(str(number - 1), str(number))))
        opened.append(Store(ManualClock(), state_path=tmp_path / f"{number}.db"))
        return opened[-1]

    yield again
    for store in opened:
        store.close()


def test_inboxes_messages_leases_and_counters_continue(reopen: Callable[[], Store]) -> None:
    store = reopen()
    store.configure(quarantine_after=1)
    inbox_id = store.inboxes.open("orders").id
    store.messages.put(inbox_id, [{"text": "\ud800\u0000é", "big": 2**70}] * 4, ids="abcd")
    acked, quarantined = (store.messages.lease(inbox_id, lease_limit=1)["lease_id"] for _ in range(2))
    store.messages.acknowledge(inbox_id, acked)
    store.messages.release(inbox_id, quarantined)
    held = store.messages.lease(inbox_id, lease_limit=1)["lease_id"]
    before = store.messages.summary(inbox_id)

    store = reopen()
    assert store.messages.summary(inbox_id) == before
    assert [each["status"] for each in before["messages"]] == ["acked", "quarantined", "leased", "available"]
    (message,) = store.messages.lease(inbox_id)["results"]
    assert (message["id"], message["payload"]) == ("d", {"text": "\ud800\u0000é", "big": 2**70})
    assert store.messages.acknowledge(inbox_id, held)["acked_id"]
    new = store.messages.put(inbox_id, [{}], ids=["e"])
    assert [each["id"] for each in store.messages.summary(inbox_id)["messages"]] == [*"abcd", *new]


def test_a_lease_runs_out_although_the_service_was_started_again(reopen: Callable[[], Store]) -> None:
    store = reopen()
    inbox_id = store.inboxes.open("orders").id
    store.messages.put(inbox_id, [{}])
    lease_id = store.messages.lease(inbox_id, lease_seconds=60)["lease_id"]
    store = reopen()
    store.clock.advance(60)
    with pytest.raises(ServiceError, match="lease_expired"):
        store.messages.acknowledge(inbox_id, lease_id)
    store = reopen()
    with pytest.raises(ServiceError, match="lease_expired"):
        store.messages.acknowledge(inbox_id, lease_id)
    assert len(store.messages.lease(inbox_id)["results"]) == 1


def test_tokens_codes_refresh_tokens_and_unenrollments_continue(reopen: Callable[[], Store]) -> None:
    store = reopen()
    page = {"scope": "external", "redirect_uri": "http://localhost/x"}
    first, second = (parse_qs(urlsplit(store.tokens.approve(page)).query)["code"][0] for _ in range(2))
    form = {"grant_type": "authorization_code", "redirect_uri": "http://localhost/x"}
    answer = store.tokens.grant({**form, "code": first}, BASIC)
    store.unenroll("7")

    store = reopen()
    assert store.tokens.admit(f"Bearer {answer['access_token']}", INBOX)
    with pytest.raises(ServiceError, match="invalid_grant"):
        store.tokens.grant({**form, "code": first}, BASIC)
    assert store.tokens.grant({**form, "code": second}, BASIC)
    refresh = {"grant_type": "refresh_token", "refresh_token": answer["refresh_token"]}
    assert store.tokens.grant(refresh, BASIC)
    with pytest.raises(ServiceError, match="invalid_grant"):
        reopen().tokens.grant(refresh, BASIC)
    assert store.unenrolled == ["7"]


def test_the_state_of_inboxes_and_their_order_continue(reopen: Callable[[], Store]) -> None:
    store = reopen()
    for name in "cab":
        store.inboxes.create(name, SUBSCRIPTION)
    store.inboxes.delete(store.inboxes.find("a").id)
    store.inboxes.pause(store.inboxes.find("c").id)
    store = reopen()
    assert [(each.name, each.status) for each in store.inboxes.page(9, 0)[1]] == [
        ("c", "paused"),
        ("b", "active"),
    ]


def test_the_clock_stays_where_it_was_moved_to(reopen: Callable[[], Store]) -> None:
    store = reopen()
    store.clock.advance(100)
    assert reopen().clock.now() == store.clock.now()


def test_a_deleted_inbox_leaves_nothing_behind(reopen: Callable[[], Store]) -> None:
    store = reopen()
    inbox_id = store.inboxes.open("orders").id
    store.messages.put(inbox_id, [{}, {}])
    store.messages.lease(inbox_id, lease_limit=1)
    store.inboxes.delete(inbox_id)
    assert reopen().execute("SELECT * FROM records") == []


def test_a_reset_empties_the_file(reopen: Callable[[], Store]) -> None:
    store = reopen()
    store.inboxes.open("orders")
    store.clock.advance(5)
    store.reset()
    again = reopen()
    assert again.inboxes.page(9, 0) == (0, [])
    assert again.clock.offset == 0


def test_a_state_file_belongs_to_one_emulator(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    first = Store(state_path=path)
    with pytest.raises(OSError, match=r"state\.db cannot be used: another emulator uses it; stop that one"):
        Store(state_path=path)
    first.inboxes.open("orders")
    first.close()
    assert Store(state_path=path).inboxes.find("orders")


@pytest.mark.parametrize("body", ["[1]", '"x"', "null", "{"])
def test_a_state_of_another_version_is_named(tmp_path: Path, body: str) -> None:
    path = tmp_path / "state.db"
    Store(state_path=path).close()
    with sqlite3.connect(path) as other:
        other.execute("INSERT INTO records VALUES ('inbox', 'x', ?)", (body,))
    other.close()
    with pytest.raises(OSError, match=r"state\.db is not of this version of the emulator .*; delete it$"):
        Store(state_path=path)


SHOP = {"app_key": "shop", "action_key": "order"}


@pytest.mark.parametrize(
    ("given", "resolved"),
    [
        ("Shop@2.1.0", "Shop@2.1.0"),
        ("ShopAPI", "ShopAPI@1.0.0"),
        ("ShopAPI@latest", "ShopAPI@1.0.0"),
        ("my-shop", "MyShopAPI@1.0.0"),
    ],
)
def test_an_app_key_is_resolved_to_its_versioned_form(given: str, resolved: str) -> None:
    assert resolve_app_key(given) == resolved


@pytest.mark.parametrize(
    ("value", "pointer"),
    [
        (None, "/subscription"),
        ({"action_key": "order"}, "/subscription/app_key"),
        ({"app_key": "shop"}, "/subscription/action_key"),
        ({"app_key": "shop@x", "action_key": "order"}, "/subscription/app_key"),
        (SHOP, "/subscription/inputs"),
        ({**SHOP, "inputs": []}, "/subscription/inputs"),
        ({**SHOP, "inputs": {}, "connection_id": "x"}, "/subscription/connection_id"),
        ({**SHOP, "inputs": {}, "connection_id": True}, "/subscription/connection_id"),
    ],
)
def test_a_bad_subscription_is_refused_by_the_name_of_its_field(value: Any, pointer: str) -> None:
    with pytest.raises(ValueError) as refusal:
        InboxBody.model_validate({"subscription": value})
    (error,) = invalid_value(refusal.value).body["errors"]
    assert (error["status"], error["source"]) == (400, {"pointer": pointer})
    assert pointer[1:].replace("/", ".") in error["detail"]


@pytest.mark.parametrize("connection_id", [None, 12, "0b7e6f3a-6f0e-4f8e-9a51-0d6a6c1b2f10"])
def test_a_connection_id_is_a_uuid_a_number_or_null(connection_id: Any) -> None:
    given = {"app_key": "Shop@2.1.0", "action_key": "order", "inputs": {}, "connection_id": connection_id}
    assert Subscription.model_validate(given).model_dump() == given


@pytest.mark.parametrize("url", ["ftp://x/", 7, "http://", "http://[", "http://x/" + "a" * 2048])
def test_a_notification_url_has_to_be_one(url: Any) -> None:
    with pytest.raises(ValueError, match="notification_url"):
        UpdateBody(notification_url=url)


@pytest.mark.parametrize("url", ["http://x", "https://a.test:1/b?c", "http://[::1]:8/x", None])
def test_http_addresses_are_notification_urls(url: str | None) -> None:
    assert UpdateBody(notification_url=url).notification_url == url


@pytest.mark.parametrize("name", [" ", "x" * 101, 5])
@pytest.mark.parametrize("field", ["name", "key"])
def test_a_bad_name_is_refused(field: str, name: Any) -> None:
    with pytest.raises(ValueError, match=field):
        InboxBody.model_validate({field: name, "subscription": {**SHOP, "inputs": {}}})


REDIRECT = "http://127.0.0.1:8900/callback"
PAGE = {
    "response_type": "code",
    "client_id": "demo-client",
    "redirect_uri": REDIRECT,
    "scope": "workflow workflow:write",
    "response_mode": "query",
    "state": "s t&",
}


def code(store: Store) -> str:
    return parse_qs(urlsplit(store.tokens.approve(PAGE)).query)["code"][0]


FAMILIES = ("guess", "templates", "inbox", "token", "promotions")


def remaining(store: Store, family: str) -> str | None:
    return store.spend(family).get("X-RateLimit-Remaining")


def test_by_default_every_family_has_a_limit_that_is_hard_to_reach(store: Store) -> None:
    reset = str(round(store.clock.now()) + 3600)
    expected = {"X-RateLimit-Limit": "10000000", "X-RateLimit-Remaining": "9999999"}
    for family in FAMILIES:
        assert store.spend(family) == {**expected, "X-RateLimit-Reset": reset}
    assert remaining(store, "inbox") == "9999998"


def test_the_default_limit_can_be_changed_and_switched_off(store: Store) -> None:
    store.configure(rate_limit=2)
    assert [remaining(store, "inbox"), remaining(store, "inbox")] == ["1", "0"]
    with pytest.raises(ServiceError):
        store.spend("inbox")
    store.configure(rate_limit=None)
    assert store.spend("inbox") == {}


def test_pages_for_people_have_no_rate_headers(store: Store) -> None:
    assert store.spend("page") == {}


def test_a_window_counts_down_refuses_and_begins_anew(store: Store) -> None:
    store.configure(rate_limit=2, rate_window_seconds=60)
    reset = str(round(store.clock.now()) + 60)
    expected = {"X-RateLimit-Limit": "2", "X-RateLimit-Remaining": "1", "X-RateLimit-Reset": reset}
    assert store.spend("guess") == expected
    store.clock.advance(20)
    assert store.spend("guess")["X-RateLimit-Remaining"] == "0"
    with pytest.raises(ServiceError) as refusal:
        store.spend("guess")
    assert refusal.value.status == 429
    assert refusal.value.headers == {**expected, "X-RateLimit-Remaining": "0", "Retry-After": "40"}
    store.clock.advance(40)
    assert store.spend("guess")["X-RateLimit-Remaining"] == "1"


def test_the_reset_header_can_be_a_delta(store: Store) -> None:
    store.configure(reset_header="delta", rate_limit=5, rate_window_seconds=60)
    store.spend("inbox")
    store.clock.advance(15)
    assert store.spend("inbox")["X-RateLimit-Reset"] == "45"


def test_families_are_limited_apart(store: Store) -> None:
    store.configure(rate_limit=1)
    assert [remaining(store, "guess"), remaining(store, "inbox")] == ["0", "0"]
    with pytest.raises(ServiceError):
        store.spend("guess")
    store.configure(rate_limit=10)
    assert remaining(store, "guess") == "8"
