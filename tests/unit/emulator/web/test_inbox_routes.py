"""The trigger inbox over a real socket."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

import pytest

from airflow_provider_workflow.emulator.clock import ManualClock
from airflow_provider_workflow.emulator.server import EmulatorServer
from tests.unit.emulator.conftest import SUBSCRIPTION, Api

LEASE = "0b7e6f3a-6f0e-4f8e-9a51-0d6a6c1b2f10"
FIELDS = {
    "id", "created_at", "name", "key", "status", "paused_reason", "notification_url", "subscription"
}  # fmt: skip


def error_of(response: Any) -> dict[str, Any]:
    (error,) = response.json()["errors"]
    assert error["status"] == response.status_code
    assert error["detail"]
    return dict(error)


def test_an_inbox_lives_from_creation_to_deletion(api: Api) -> None:
    created = api("POST", "/inboxes", {"name": "orders", "subscription": SUBSCRIPTION, "unknown": 1})
    assert created.status_code == 201
    inbox = created.json()
    assert set(inbox) == FIELDS
    assert (inbox["status"], inbox["subscription"]) == ("initializing", SUBSCRIPTION)
    path = f"/inboxes/{inbox['id']}"
    assert api("GET", path).json()["status"] == "active"
    assert api("POST", "/inboxes", {"name": "orders", "subscription": SUBSCRIPTION}).status_code == 409
    changed = api("PATCH", path, {"notification_url": "http://receiver.test/"})
    assert (changed.status_code, changed.json()["notification_url"]) == (200, "http://receiver.test/")
    paused = api("POST", f"{path}/pause")
    assert (paused.status_code, paused.json()["paused_reason"]) == (200, "user")
    assert api("POST", f"{path}/pause").status_code == 409
    assert api("POST", f"{path}/resume").status_code == 200
    assert api("POST", f"{path}/resume").status_code == 409
    deleted = api("DELETE", path)
    assert (deleted.status_code, deleted.json()["status"]) == (202, "deleting")
    for method, below in (("GET", ""), ("DELETE", ""), ("GET", "/messages"), ("POST", "/messages/lease")):
        assert error_of(api(method, path + below))["code"] == "not_found"


def test_ensure_creates_finds_or_refuses(api: Api) -> None:
    body = {"name": "orders", "subscription": {"app_key": "my-shop", "action_key": "order", "inputs": {}}}
    first, second = api("PUT", "/inboxes", body), api("PUT", "/inboxes", body)
    assert (first.status_code, second.status_code) == (201, 200)
    assert first.json()["id"] == second.json()["id"]
    assert first.json()["subscription"]["app_key"] == "MyShopAPI@1.0.0"
    assert api("PUT", "/inboxes", {**body, "subscription": SUBSCRIPTION}).status_code == 409
    assert error_of(api("PUT", "/inboxes", {"subscription": SUBSCRIPTION}))["source"] == {"pointer": "/name"}


def test_a_resumed_inbox_is_202_while_it_initializes(emulator: EmulatorServer, api: Api) -> None:
    inbox_id = emulator.open_inbox("orders")
    emulator.store.configure(initializing_seconds=5)
    api("POST", f"/inboxes/{inbox_id}/pause")
    resumed = api("POST", f"/inboxes/{inbox_id}/resume")
    assert (resumed.status_code, resumed.json()["status"]) == (202, "initializing")


@pytest.mark.parametrize("prefix", ["/trigger-inbox/v1", "/trigger-inbox/api/v1"])
def test_both_prefixes_answer_and_links_stay_below_theirs(
    emulator: EmulatorServer, api: Api, prefix: str
) -> None:
    ids = [emulator.open_inbox(name) for name in "abc"]
    page = api("GET", f"{prefix}/inboxes", params={"limit": 2, "status": "active"}).json()
    assert (page["count"], page["previous"]) == (3, None)
    following = urlsplit(page["next"])
    assert (following.netloc, following.path) == (urlsplit(emulator.base_url).netloc, f"{prefix}/inboxes")
    rest = api.session.get(page["next"], timeout=5).json()
    assert [each["id"] for each in (*page["results"], *rest["results"])] == ids
    assert rest["next"] is None
    assert api.session.get(rest["previous"], timeout=5).json() == page


def test_messages_are_leased_and_acknowledged(emulator: EmulatorServer, api: Api) -> None:
    ids = emulator.put("orders", {"n": 1}, {"n": 2}, {"n": 3})
    path = f"/inboxes/{emulator.open_inbox('orders')}/messages"
    lease = api("POST", f"{path}/lease", {"lease_seconds": 60, "lease_limit": 2})
    assert lease.status_code == 201
    assert [each["payload"] for each in lease.json()["results"]] == [{"n": 1}, {"n": 2}]
    body = {"lease_id": lease.json()["lease_id"]}
    acked = api("POST", f"{path}/ack", {**body, "message_ids": ids[:1]})
    assert (acked.status_code, [each["id"] for each in acked.json()["results"]]) == (201, ids[:1])
    released = api("POST", f"{path}/release", body)
    assert (released.status_code, [each["id"] for each in released.json()["results"]]) == (201, ids[1:2])
    for verb, key in (("ack", "acked_id"), ("release", "released_id")):
        nothing = api("POST", f"{path}/{verb}", body)
        assert (nothing.status_code, nothing.json()) == (200, {key: None, "results": []})
    listed = api("GET", path, params={"limit": 1}).json()
    assert "count" not in listed
    assert [each["id"] for each in listed["results"]] == ids[1:2]
    assert [each["id"] for each in api.session.get(listed["next"], timeout=5).json()["results"]] == ids[2:]


def test_a_payload_may_be_what_other_encoders_reject(emulator: EmulatorServer, api: Api) -> None:
    emulator.put("orders", "\ud800", float("inf"))
    lease = api("POST", f"/inboxes/{emulator.open_inbox('orders')}/messages/lease")
    assert [each["payload"] for each in lease.json()["results"]] == ["\ud800", float("inf")]


def test_leasing_needs_no_body_and_an_empty_inbox_is_200(emulator: EmulatorServer, api: Api) -> None:
    empty = api("POST", f"/inboxes/{emulator.open_inbox('orders')}/messages/lease")
    attributes = {"status": "active", "paused_reason": None}
    expected: dict[str, Any] = {
        "lease_id": None,
        "leased_until": None,
        "results": [],
        "inbox_attributes": attributes,
    }
    assert (empty.status_code, empty.json()) == (200, expected)


def test_a_lease_that_ran_out_is_400(emulator: EmulatorServer, api: Api, clock: ManualClock) -> None:
    emulator.put("orders", {})
    path = f"/inboxes/{emulator.open_inbox('orders')}/messages"
    lease_id = api("POST", f"{path}/lease").json()["lease_id"]
    clock.advance(300)
    for verb in ("ack", "release"):
        assert error_of(api("POST", f"{path}/{verb}", {"lease_id": lease_id}))["code"] == "lease_expired"


def test_a_paused_and_drained_inbox_is_409_without_the_envelope(emulator: EmulatorServer, api: Api) -> None:
    inbox_id = emulator.open_inbox("orders")
    emulator.store.inboxes.force(inbox_id, "paused", "upstream_failures")
    response = api("POST", f"/inboxes/{inbox_id}/messages/lease")
    assert response.status_code == 409
    assert set(response.json()) == {"detail", "inbox_attributes"}
    assert set(response.json()["inbox_attributes"]) == {"status", "paused_reason", "paused_at"}


@pytest.mark.parametrize(
    ("verb", "body", "field"),
    [
        ("lease", {"lease_seconds": 0}, "lease_seconds"),
        ("lease", {"lease_seconds": 3601}, "lease_seconds"),
        ("lease", {"lease_seconds": True}, "lease_seconds"),
        ("lease", {"lease_limit": 0}, "lease_limit"),
        ("lease", {"lease_limit": 101}, "lease_limit"),
        ("ack", {}, "lease_id"),
        ("ack", {"lease_id": LEASE, "message_ids": []}, "message_ids"),
        ("ack", {"lease_id": LEASE, "message_ids": [LEASE] * 101}, "message_ids"),
        ("release", {"lease_id": LEASE.replace("-", "")}, "lease_id"),
        ("release", {"lease_id": LEASE, "message_ids": [{}]}, "message_ids"),
    ],
)
def test_arguments_of_the_wrong_kind_or_out_of_range_are_400(
    emulator: EmulatorServer, api: Api, verb: str, body: dict[str, Any], field: str
) -> None:
    error = error_of(api("POST", f"/inboxes/{emulator.open_inbox('orders')}/messages/{verb}", body))
    assert (error["status"], error["source"]) == (400, {"pointer": f"/{field}"})
    assert field in error["detail"]


@pytest.mark.parametrize("verb", ["ack", "release"])
@pytest.mark.parametrize("chosen", [17, ""])
def test_a_message_whose_id_is_no_uuid_can_be_acknowledged_and_released(
    emulator: EmulatorServer, api: Api, verb: str, chosen: Any
) -> None:
    emulator.put("orders", {}, {}, ids=[chosen, "other"])
    path = f"/inboxes/{emulator.open_inbox('orders')}/messages"
    body = {"lease_id": api("POST", f"{path}/lease").json()["lease_id"], "message_ids": [chosen]}
    ended = api("POST", f"{path}/{verb}", body)
    assert (ended.status_code, [each["id"] for each in ended.json()["results"]]) == (201, [chosen])


@pytest.mark.parametrize("data", [b"{", b"[]", b"\xff"])
def test_a_body_that_is_no_json_object_is_a_parse_error(
    emulator: EmulatorServer, api: Api, data: bytes
) -> None:
    path = f"/inboxes/{emulator.open_inbox('orders')}/messages/lease"
    headers = {"Content-Type": "application/json; charset=utf-8"}
    assert error_of(api("POST", path, data=data, headers=headers))["code"] == "parse_error"


@pytest.mark.parametrize("content_type", [None, "text/plain"])
def test_a_json_body_of_another_content_type_is_400(
    emulator: EmulatorServer, api: Api, lease_path: str, content_type: str | None
) -> None:
    headers = {"Content-Type": content_type} if content_type else {}
    error = error_of(api("POST", lease_path, data=b'{"lease_limit": 1}', headers=headers))
    assert (error["status"], error["source"]) == (400, {"header": "Content-Type"})
    assert emulator.summary("orders")["counters"]["leases"] == 0


def test_an_inbox_is_created_and_found_by_key_as_well_as_by_name(api: Api) -> None:
    inbox = api("PUT", "/inboxes", {"key": "orders", "subscription": SUBSCRIPTION}).json()
    assert (inbox["name"], inbox["key"]) == ("orders", "orders")
    both = {"key": "orders", "name": "orders", "subscription": SUBSCRIPTION}
    assert api("PUT", "/inboxes", both).json()["id"] == inbox["id"]
    for word in ("name", "key"):
        assert [each["id"] for each in api("GET", "/inboxes", params={word: "orders"}).json()["results"]] == [
            inbox["id"]
        ]


@pytest.mark.parametrize("query", [{"limit": "x"}, {"offset": "-1"}, {"status": "asleep"}])
def test_a_bad_parameter_is_named(api: Api, query: dict[str, str]) -> None:
    (name,) = query
    assert error_of(api("GET", "/inboxes", params=query))["source"] == {"parameter": name}


@pytest.mark.specification("14.4 scope", "11.4 expired", "14.4 prefix")
def test_tokens_are_checked_as_the_specification_says(emulator: EmulatorServer, api: Api) -> None:
    def ask(authorization: str) -> tuple[int, str]:
        error = error_of(api("GET", "/inboxes", headers={"Authorization": authorization}))
        return error["status"], error["code"]

    good = emulator.token()
    assert ask(good)[0] == 401
    assert ask(f"Bearer {emulator.token('workflow')}") == (401, "invalid_audience")
    assert ask("Bearer unknown") == (400, "unauthenticated")
    emulator.store.tokens.expire(good)
    assert ask(f"Bearer {good}") == (400, "unauthenticated")


def test_rate_headers_are_on_every_answer(api: Api, lease_path: str) -> None:
    client = {"client_id": "demo-client"}
    answers = [
        api("POST", lease_path),
        api("POST", lease_path),
        api("POST", lease_path, {"lease_limit": None}),
        api("GET", "/inboxes", headers={"Authorization": "none"}),
        api("GET", "/inboxes/unknown"),
        api("GET", lease_path),
        api("GET", "/nowhere"),
        api("POST", "/v2/guess", {"description": "save files"}, params=client),
        api("GET", "/v1/workflow-templates", params=client),
        api("POST", "/oauth/token"),
        api("DELETE", "/v2/promotions/7"),
        api("GET", lease_path.replace("messages/lease", "events"), stream=True),
    ]
    answers[-1].close()
    statuses = [201, 200, 400, 401, 404, 405, 404, 200, 200, 401, 403, 200]
    assert [each.status_code for each in answers] == statuses
    for answer in answers:
        limit, left = (int(answer.headers[f"X-RateLimit-{word}"]) for word in ("Limit", "Remaining"))
        assert limit - 100 < left < limit
        assert int(answer.headers["X-RateLimit-Reset"]) >= 10**9
        assert "Retry-After" not in answer.headers


@pytest.mark.specification("15 429, 503")
def test_rate_headers_come_on_success_and_retry_after_on_429(emulator: EmulatorServer, api: Api) -> None:
    emulator.store.configure(rate_limit=1, rate_window_seconds=60)
    first, second = api("GET", "/inboxes"), api("GET", "/inboxes")
    assert (first.status_code, first.headers["X-RateLimit-Remaining"]) == (200, "0")
    assert (second.status_code, second.headers["Retry-After"]) == (429, "60")
    assert second.headers["X-RateLimit-Limit"] == "1"
    assert int(second.headers["X-RateLimit-Reset"]) >= 10**9
    assert error_of(second)["code"] == "rate_limited"
