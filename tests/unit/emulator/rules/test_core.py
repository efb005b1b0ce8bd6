"""Rules of the emulator: state, journal, validation, rate limits."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_workflow.emulator.clock import ManualClock
from airflow_provider_workflow.emulator.rules.errors import (
    InboxBody,
    ServiceError,
    UpdateBody,
    invalid_value,
)
from airflow_provider_workflow.emulator.rules.store import Store


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


def test_the_clock_stays_where_it_was_moved_to(reopen: Callable[[], Store]) -> None:
    store = reopen()
    store.clock.advance(100)
    assert reopen().clock.now() == store.clock.now()


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


@pytest.mark.parametrize("url", ["ftp://x/", 7, "http://", "http://[", "http://x/" + "a" * 2048])
def test_a_notification_url_has_to_be_one(url: Any) -> None:
    with pytest.raises(ValueError, match="notification_url"):
        UpdateBody(notification_url=url)


@pytest.mark.parametrize("url", ["http://x", "https://a.test:1/b?c", "http://[::1]:8/x", None])
def test_http_addresses_are_notification_urls(url: str | None) -> None:
    assert UpdateBody(notification_url=url).notification_url == url
