"""What survives when the service is started again on its state file."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from airflow_provider_workflow.emulator.clock import ManualClock
from airflow_provider_workflow.emulator.rules.errors import ServiceError
from airflow_provider_workflow.emulator.rules.oauth import INBOX
from airflow_provider_workflow.emulator.rules.store import Store
from tests.unit.emulator.conftest import SUBSCRIPTION

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
