"""The rules of the emulator: state, inboxes, messages, tokens and guesses, with a clock moved by hand."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_workflow.emulator.clock import ManualClock
from airflow_provider_workflow.emulator.rules.bodies import InboxBody, UpdateBody
from airflow_provider_workflow.emulator.rules.errors import ServiceError, invalid_value
from airflow_provider_workflow.emulator.rules.oauth import EVENTS, INBOX, PROMOTIONS, Admission
from airflow_provider_workflow.emulator.rules.store import Store
from tests.unit.client.stores import authorize
from tests.unit.emulator.conftest import BASIC, PAGE, REDIRECT


def test_a_lease_runs_out_although_the_service_was_started_again(tmp_path: Path) -> None:
    def start_store() -> Store:
        return Store(ManualClock(), state_path=tmp_path / "state.db")

    store = start_store()
    inbox_id = store.inboxes.open("orders").id
    store.messages.put(inbox_id, [{}])
    lease_id = store.messages.lease(inbox_id, lease_seconds=60)["lease_id"]
    store.clock.advance(60)
    now = store.clock.now()
    for _ in range(2):
        store.close()
        store = start_store()
        assert store.clock.now() == now, "the clock stays where it was moved to"
        with pytest.raises(ServiceError, match="lease_expired"):
            store.messages.acknowledge(inbox_id, lease_id)
    assert len(store.messages.lease(inbox_id)["results"]) == 1
    store.close()


def test_inboxes_keep_their_order_and_state_and_a_deleted_one_leaves_nothing_behind(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    store = Store(ManualClock(), state_path=path)
    for name in "cab":
        inbox_id = store.inboxes.open(name).id
        store.messages.put(inbox_id, [{}, {}, {}], ids=[name, f"{name} 2", f"{name} 3"])
        lease = store.messages.lease(inbox_id, lease_limit=2)
        store.messages.acknowledge(inbox_id, lease["lease_id"], [name])
    store.inboxes.delete(store.inboxes.find("a").id)
    store.inboxes.pause(store.inboxes.find("c").id)
    store.close()

    with sqlite3.connect(path) as file:
        kinds = dict(file.execute("SELECT kind, COUNT(*) FROM records GROUP BY kind").fetchall())
    file.close()
    assert {kind: kinds[kind] for kind in ("inbox", "message", "lease")} == {
        "inbox": 2,
        "message": 6,
        "lease": 2,
    }
    again = Store(ManualClock(), state_path=path)
    page = again.inboxes.page(9, 0)[1]
    assert [(inbox.name, inbox.status) for inbox in page] == [("c", "paused"), ("b", "active")]
    assert again.inboxes.page(9, 0, status="paused")[1] == again.inboxes.page(9, 0, name="c")[1] == page[:1]
    again.clock.advance(5)
    again.configure(quarantine_after=2)
    again.reset()
    again.close()

    empty = Store(ManualClock(), state_path=path)
    assert (empty.inboxes.page(9, 0), empty.clock.offset) == ((0, []), 0)
    empty.close()


@pytest.mark.parametrize("status", ["initializing", "deleting", "initialization_failure"])
def test_an_inbox_that_does_not_work_hands_out_nothing_and_a_lease_is_of_one_inbox(
    store: Store, inbox_id: str, status: str
) -> None:
    store.messages.put(inbox_id, [{}, {}])
    lease_id = store.messages.lease(inbox_id, lease_limit=1)["lease_id"]
    other = store.inboxes.open("other").id
    assert store.messages.acknowledge(other, lease_id)["acked_id"] is None

    store.inboxes.force(inbox_id, status)
    lease = store.messages.lease(inbox_id)
    assert (lease["lease_id"], lease["inbox_attributes"]["status"]) == (None, status)


def test_each_family_of_calls_has_a_limit_of_its_own_and_pages_have_none(store: Store) -> None:
    store.configure(rate_limit=1, rate_window_seconds=10)
    reset = str(round(store.clock.now()) + 10)
    for family in ("inbox", "guess", "unknown"):
        headers = store.spend(family)
        assert headers == {
            "X-RateLimit-Limit": "1",
            "X-RateLimit-Remaining": "0",
            "X-RateLimit-Reset": reset,
        }
    with pytest.raises(ServiceError, match="Rate limit"):
        store.spend("inbox")
    assert store.spend("page") == store.spend("control") == {}
    store.clock.advance(10)
    assert store.spend("inbox")["X-RateLimit-Remaining"] == "0"
    store.configure(rate_limit=None)
    assert store.spend("inbox") == {}


def test_a_state_file_belongs_to_one_emulator(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    first = Store(state_path=path)
    with pytest.raises(OSError, match=r"state\.db cannot be used: another emulator uses it; stop that one"):
        Store(state_path=path)
    first.inboxes.open("orders")
    first.close()
    assert Store(state_path=path).inboxes.find("orders")


@pytest.mark.parametrize("body", ["[1]", "{"])
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


def test_a_notification_url_has_to_be_one() -> None:
    for wrong in ("ftp://x/", 7, "http://", "http://[", "http://x/" + "a" * 2048):
        with pytest.raises(ValueError, match="notification_url"):
            UpdateBody(notification_url=wrong)  # type: ignore[arg-type]
    for url in ("http://x", "https://a.test:1/b?c", "http://[::1]:8/x", None):
        assert UpdateBody(notification_url=url).notification_url == url


def test_control_finds_an_inbox_by_name_or_id_and_opens_a_missing_one(store: Store, inbox_id: str) -> None:
    assert store.inboxes.find("orders").id == store.inboxes.find(inbox_id).id == inbox_id
    assert store.inboxes.open("orders").id == inbox_id
    store.configure(initializing_seconds=60)
    assert store.inboxes.open("new").status == "active"
    with pytest.raises(ServiceError) as refusal:
        store.inboxes.open("0b7e6f3a-6f0e-4f8e-9a51-0d6a6c1b2f10")
    assert refusal.value.status == 404


def test_a_message_without_an_id_ends_with_its_whole_lease_only(store: Store, inbox_id: str) -> None:
    store.messages.put(inbox_id, [{"n": 1}], ids=[None])
    lease = store.messages.lease(inbox_id)
    assert [set(message) for message in lease["results"]] == [
        {"created_at", "status", "message_attributes", "payload"}
    ]
    with pytest.raises(ServiceError, match="message_ids"):
        store.messages.acknowledge(inbox_id, lease["lease_id"], ["null"])
    assert store.messages.acknowledge(inbox_id, lease["lease_id"])["acked_id"]


def test_a_number_and_its_text_name_the_same_message(store: Store, inbox_id: str) -> None:
    store.messages.put(inbox_id, [{}, {}], ids=[17, 18])
    lease_id = store.messages.lease(inbox_id)["lease_id"]
    (released,) = store.messages.release(inbox_id, lease_id, ["17"])["results"]
    assert released["id"] == 17


def test_a_state_can_be_forced_and_a_pause_has_its_reason_and_time(store: Store, inbox_id: str) -> None:
    inbox = store.inboxes.force(inbox_id, "paused", "authentication")
    assert (inbox.status, inbox.paused_reason) == ("paused", "authentication")
    assert inbox.paused_at == store.clock.now()
    assert store.inboxes.force(inbox_id, "active").paused_at is None


SUBSCRIPTION = {"app_key": "ShopAPI@1.0.0", "action_key": "order", "inputs": {}, "connection_id": None}


def test_inboxes_without_a_name_do_not_clash(store: Store) -> None:
    assert store.inboxes.create(None, SUBSCRIPTION).id != store.inboxes.create(None, SUBSCRIPTION).id


@pytest.mark.parametrize(("order", "names"), [("oldest", ["a", "b"]), ("newest", ["c", "b"])])
def test_a_page_holds_its_part_of_the_list_in_the_order_of_the_settings(
    store: Store, order: str, names: list[str]
) -> None:
    store.configure(list_order=order)
    for name in "abc":
        store.inboxes.open(name)
    count, page = store.inboxes.page(2, 0)
    assert (count, [inbox.name for inbox in page]) == (3, names)


def test_attributes_can_be_given_and_set_later(store: Store, inbox_id: str) -> None:
    attributes = {"error_message": "bounced", "possible_duplicate_data": True, "lease_count": 2}
    (message_id,) = store.messages.put(inbox_id, [{}], attributes=attributes)
    store.messages.set_attributes(inbox_id, message_id, {"error_message": None})
    (message,) = store.messages.lease(inbox_id)["results"]
    expected = {"error_message": None, "possible_duplicate_data": True, "lease_count": 3}
    assert message["message_attributes"] == expected
    with pytest.raises(ServiceError, match="message_id"):
        store.messages.set_attributes(inbox_id, "nobody", {})


def test_a_cursor_of_somebody_else_is_refused(store: Store, inbox_id: str) -> None:
    for cursor in ("?", "bm9uc2Vuc2U", "++++W10", "++++?"):
        with pytest.raises(ServiceError, match="cursor"):
            store.messages.page(inbox_id, 10, cursor)


def test_the_summary_tells_of_every_message(store: Store, inbox_id: str) -> None:
    store.messages.put(inbox_id, [{}] * 3, ids="abc")
    store.clock.advance(1)
    lease_id = store.messages.lease(inbox_id, lease_limit=2)["lease_id"]
    store.clock.advance(1)
    store.messages.acknowledge(inbox_id, lease_id, ["a"])
    summary = store.messages.summary(inbox_id)
    start = store.clock.now() - 2
    times = [
        (message["id"], message["created_at"], message["leased_at"], message["acked_at"])
        for message in summary["messages"]
    ]
    assert times == [
        ("a", start, start + 1, start + 2),
        ("b", start, start + 1, None),
        ("c", start, None, None),
    ]
    assert summary["counts"] == {"available": 1, "leased": 1, "acked": 1, "quarantined": 0}
    assert [(lease["lease_id"], lease["message_ids"]) for lease in summary["leases"]] == [(lease_id, ["b"])]
    counters = summary["counters"]
    assert (counters["put"], counters["leases"], counters["leased"], counters["acks"]) == (3, 1, 2, 1)
    assert "messages" not in store.messages.summary(inbox_id, with_messages=False)


def code(store: Store) -> str:
    return authorize(store.tokens, REDIRECT)["code"]


def exchange(store: Store, value: str, redirect_uri: str = REDIRECT) -> dict[str, object]:
    form = {"grant_type": "authorization_code", "code": value, "redirect_uri": redirect_uri}
    return store.tokens.grant(form, BASIC)


def admission_of(store: Store, authorization: str | None, admission: Admission) -> tuple[int, str]:
    with pytest.raises(ServiceError) as refusal:
        store.tokens.admit(authorization, admission)
    return refusal.value.status, refusal.value.code


@pytest.mark.specification("9.1 credentials")
def test_credentials_may_be_in_the_body_and_form_encoded_in_basic(store: Store) -> None:
    store.configure(client_id="a b", client_secret="p%+c")
    form = {"grant_type": "client_credentials", "scope": "external"}
    assert store.tokens.grant({**form, "client_id": "a b", "client_secret": "p%+c"}, None)
    assert store.tokens.grant(form, ("a b", "p%+c"))
    assert store.tokens.grant(form, ("a+b", "p%25%2Bc"))


@pytest.mark.specification("10 code", "14.3 code")
def test_a_code_lives_for_two_minutes_and_belongs_to_its_redirect_uri(store: Store) -> None:
    first, second, elsewhere = (code(store) for _ in range(3))
    store.clock.advance(119)
    exchange(store, first)
    with pytest.raises(ServiceError, match="redirect_uri"):
        exchange(store, elsewhere, "http://localhost:8080/other")
    store.clock.advance(1)
    with pytest.raises(ServiceError, match="invalid_grant"):
        exchange(store, second)


@pytest.mark.specification("14.3 refresh")
def test_a_refresh_token_is_used_once_and_never_expires(store: Store) -> None:
    first = exchange(store, code(store))
    store.clock.advance(10 * 365 * 86400)
    form = {"grant_type": "refresh_token", "refresh_token": str(first["refresh_token"])}
    assert store.tokens.grant(form, BASIC)["refresh_token"] != first["refresh_token"]
    with pytest.raises(ServiceError, match="invalid_grant"):
        store.tokens.grant(form, BASIC)


@pytest.mark.specification("10 redirect_uri", "14.1 redirect URIs")
def test_a_stranger_gets_no_redirect(store: Store) -> None:
    for change in (
        {"client_id": "other"},
        {"redirect_uri": "https://evil.test/"},
        {"redirect_uri": ""},
        {"redirect_uri": "http://127.0.0.1:5555/any"},
        {"redirect_uri": f"{REDIRECT}/"},
    ):
        with pytest.raises(ServiceError):
            store.tokens.page_fault({**PAGE, **change})
    store.configure(redirect_uris=(REDIRECT, "http://127.0.0.1:5555/any"))
    store.tokens.page_fault({**PAGE, "redirect_uri": "http://127.0.0.1:5555/any"})


@pytest.mark.specification("10 response_type", "10 response_mode", "10 scope", "10 state")
def test_faults_of_the_page_are_named_as_the_rfc_does(store: Store) -> None:
    assert store.tokens.page_fault(PAGE) is None
    assert store.tokens.page_fault({**PAGE, "response_type": "token"}) == "unsupported_response_type"
    assert store.tokens.page_fault({**PAGE, "response_mode": "fragment"}) == "invalid_request"
    assert store.tokens.page_fault({**PAGE, "scope": ""}) == "invalid_scope"
    for parameter in ("response_type", "response_mode", "state", "scope"):
        assert store.tokens.page_fault({name: PAGE[name] for name in PAGE if name != parameter}) is not None


@pytest.mark.specification("14.3 expired", "11.4 expired")
def test_the_inbox_answers_400_for_a_token_that_expired_or_is_unknown(store: Store) -> None:
    token = store.tokens.issue("external").value
    store.clock.advance(35999)
    store.tokens.admit(f"Bearer {token}", INBOX)
    store.clock.advance(1)
    assert admission_of(store, f"Bearer {token}", INBOX) == (400, "unauthenticated")
    assert admission_of(store, "Bearer nonsense", INBOX) == (400, "unauthenticated")


@pytest.mark.specification("14.3 expired")
@pytest.mark.parametrize("admission", [EVENTS, PROMOTIONS])
def test_elsewhere_an_expired_token_is_401(store: Store, admission: Admission) -> None:
    token = store.tokens.issue(admission[0]).value
    assert store.tokens.expire(token) == 1
    assert admission_of(store, f"Bearer {token}", admission) == (401, "unauthenticated")


@pytest.mark.specification("14.4 prefix", "11.2 401 prefix")
def test_without_the_prefix_bearer_it_is_401(store: Store) -> None:
    token = store.tokens.issue("external").value
    for authorization in (token, f"bearer {token}", f"Basic {token}", None):
        assert admission_of(store, authorization, INBOX)[0] == 401


@pytest.mark.specification("14.4 scope")
def test_a_token_of_another_scope_is_refused(store: Store) -> None:
    token = store.tokens.issue("workflow promotions:read").value
    assert admission_of(store, f"Bearer {token}", INBOX) == (401, "invalid_audience")
    assert admission_of(store, f"Bearer {token}", PROMOTIONS) == (403, "forbidden")
