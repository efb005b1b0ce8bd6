"""Every kind of fault over a real socket."""

from __future__ import annotations

import time
from typing import Any

import pytest
import requests

from airflow_provider_workflow.emulator.server import EmulatorServer
from tests.unit.emulator.conftest import Api
from tests.unit.emulator.web.helpers import ask, leases, raw, read_all


def test_a_status_comes_with_the_envelope_and_without_effect(
    emulator: EmulatorServer, api: Api, lease_path: str
) -> None:
    emulator.fault("status", operation="lease", status=503, headers={"Retry-After": "7"}, code="down")
    response = api("POST", lease_path)
    assert (response.status_code, response.headers["Retry-After"]) == (503, "7")
    assert response.json()["errors"][0]["code"] == "down"
    assert leases(emulator) == 0
    assert [each.status for each in emulator.requests] == [503]
    assert api("POST", lease_path).status_code == 201


@pytest.mark.specification("11.3 401, 403, 409, 429, 503, 504")
@pytest.mark.parametrize("status", [429, 503])
def test_a_busy_answer_has_the_headers_of_the_specification(
    emulator: EmulatorServer, api: Api, lease_path: str, status: int
) -> None:
    limited = {"X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"}
    emulator.fault("status", operation="lease", status=status)
    busy = api("POST", lease_path)
    assert busy.status_code == status
    assert {name: busy.headers[name] for name in limited} == {
        **{name: api("GET", "/inboxes").headers[name] for name in limited},
        "X-RateLimit-Remaining": "10000000",
    }
    assert busy.headers["Retry-After"] == "0"

    emulator.fault("status", operation="lease", status=status, headers={"retry-after": "7"})
    assert api("POST", lease_path).headers["Retry-After"] == "7"
    emulator.fault("status", operation="lease", status=500)
    assert not {"Retry-After", *limited} & set(api("POST", lease_path).headers)


def test_a_status_can_come_after_the_effect(emulator: EmulatorServer, api: Api, lease_path: str) -> None:
    emulator.fault("status", operation="lease", status=500, when="after")
    response = api("POST", lease_path)
    error = response.json()["errors"][0]
    assert (response.status_code, error["code"]) == (500, "error")
    assert set(error["meta"]) == {"source", "full_details"}
    assert leases(emulator) == 1


@pytest.mark.parametrize(
    ("given", "content_type", "body"),
    [
        ({"json": {"detail": "only"}}, "application/json", b'{"detail":"only"}'),
        ({"text": "<h1>Bad gateway</h1>"}, "text/html", b"<h1>Bad gateway</h1>"),
        ({"text": ""}, "text/html", b""),
        ({"text": "slow down", "content_type": "text/plain"}, "text/plain", b"slow down"),
    ],
)
def test_the_body_of_a_status_is_any_other(
    emulator: EmulatorServer, api: Api, given: dict[str, Any], content_type: str, body: bytes
) -> None:
    date = "Wed, 21 Oct 2026 07:28:00 GMT"
    emulator.fault("status", status=429, headers={"Retry-After": date}, **given)
    response = api("GET", "/inboxes")
    assert (response.status_code, response.content) == (429, body)
    assert (response.headers["Content-Type"], response.headers["Retry-After"]) == (content_type, date)


@pytest.mark.parametrize("status", [204, 304])
def test_a_status_that_has_no_body_leaves_the_connection_usable(
    emulator: EmulatorServer, api: Api, status: int
) -> None:
    emulator.fault("status", status=status, headers={"X-Further": "1"})
    with raw(emulator, api) as connection:
        first = connection.recv(65536)
        ask(connection, api)
        second = connection.recv(65536)
    assert first.startswith(b"HTTP/1.1 %d" % status)
    assert first.endswith(b"\r\n\r\n")
    assert b"x-further: 1" in first
    assert second.startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("status", [401, 503])
def test_guess_gives_every_error_on_demand(emulator: EmulatorServer, api: Api, status: int) -> None:
    api.control("/faults", kind="status", operation="guess", status=status)
    response = api("POST", "/v2/guess?client_id=demo-client", {"description": "send an email"})
    assert (response.status_code, response.json()["errors"][0]["status"]) == (status, status)


@pytest.mark.parametrize(("when", "had_effect"), [("before", 0), ("after", 1)])
def test_a_connection_is_dropped_before_or_after_the_effect(
    emulator: EmulatorServer, api: Api, lease_path: str, when: str, had_effect: int
) -> None:
    emulator.fault("drop", operation="lease", when=when)
    with pytest.raises(requests.ConnectionError):
        api("POST", lease_path)
    assert leases(emulator) == had_effect
    assert [each.status for each in emulator.requests] == [None]
    assert api("GET", "/inboxes").status_code == 200


def test_a_dropped_connection_ends_without_a_byte(emulator: EmulatorServer, api: Api) -> None:
    emulator.fault("drop")
    assert read_all(raw(emulator, api)) == b""


def test_a_slow_answer_comes_late(emulator: EmulatorServer, api: Api, lease_path: str) -> None:
    emulator.fault("slow", operation="lease", seconds=0.2, times=2)
    with pytest.raises(requests.Timeout):
        api("POST", lease_path, timeout=0.05)
    before = time.monotonic()
    assert api("POST", lease_path).ok
    assert time.monotonic() - before >= 0.2


def test_a_truncated_body_is_shorter_than_promised(
    emulator: EmulatorServer, api: Api, lease_path: str
) -> None:
    emulator.fault("truncate", operation="lease")
    with pytest.raises((requests.exceptions.ChunkedEncodingError, requests.ConnectionError)):
        api("POST", lease_path)
    assert leases(emulator) == 1
    emulator.fault("truncate", operation="list_inboxes")
    head, _, body = read_all(raw(emulator, api)).partition(b"\r\n\r\n")
    promised = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
    assert 0 < len(body) < promised


def test_duplicates_come_in_two_leases_that_both_hold(
    emulator: EmulatorServer, api: Api, lease_path: str
) -> None:
    emulator.fault("duplicate", operation="lease")
    both = [api("POST", lease_path).json() for _ in range(2)]
    first, second = ([each["id"] for each in lease["results"]] for lease in both)
    assert first == second
    for lease in both:
        ack = api("POST", lease_path.replace("/lease", "/ack"), {"lease_id": lease["lease_id"]})
        assert ack.status_code == 201


def test_faults_are_chosen_by_path_and_counted(emulator: EmulatorServer, api: Api, lease_path: str) -> None:
    api.control("/faults", kind="status", path="/lease$", status=502, times=2, after=1)
    statuses = [api("POST", lease_path).status_code for _ in range(4)]
    assert statuses == [201, 502, 502, 200]
    assert emulator.emulator.faults.rules[0].met == 4
    api.control("/faults/clear")
    assert emulator.emulator.faults.rules == []
