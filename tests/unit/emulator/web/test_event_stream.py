"""The event stream over a real socket."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator

import pytest
import requests

from airflow_provider_workflow.emulator.clock import ManualClock
from airflow_provider_workflow.emulator.server import EmulatorServer
from tests.unit.emulator.conftest import Api


@pytest.fixture
def listen(emulator: EmulatorServer, api: Api) -> Iterator[Callable[..., requests.Response]]:
    """Open the event stream of an inbox."""
    opened: list[requests.Response] = []

    def start(name: str = "orders", token: str | None = None) -> requests.Response:
        headers = {"Authorization": f"Bearer {token or emulator.token()}"}
        path = f"/trigger-inbox/v1/inboxes/{emulator.open_inbox(name)}/events"
        response = requests.get(emulator.base_url + path, headers=headers, stream=True, timeout=5)
        opened.append(response)
        return response

    yield start
    for response in opened:
        response.close()


def frame(lines: Iterator[bytes]) -> dict[str, object]:
    line = next(lines)
    assert line.startswith(b"data: "), line
    assert next(lines) == b""
    return dict(json.loads(line[6:]))


def wait_for(condition: Callable[[], bool]) -> None:
    for _ in range(500):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError("it did not come to pass")


def test_a_frame_counts_notifications_and_not_messages(
    emulator: EmulatorServer, listen: Callable[..., requests.Response]
) -> None:
    emulator.put("orders", {"before": "no replay"})
    response = listen()
    assert response.headers["Content-Type"] == "text/event-stream"
    lines = response.iter_lines(chunk_size=1)
    emulator.put("orders", {}, {})
    inbox_id = emulator.open_inbox("orders")
    assert frame(lines) == {"inbox_id": inbox_id, "count": 1}
    emulator.put("other", {})
    emulator.put("orders", {})
    assert frame(lines) == {"inbox_id": inbox_id, "count": 1}


def test_notices_are_folded_into_one_frame(
    emulator: EmulatorServer, listen: Callable[..., requests.Response]
) -> None:
    lines = listen().iter_lines(chunk_size=1)
    streams, all_are_put = emulator.emulator.streams, threading.Event()
    assert streams.loop is not None
    # Each notice is passed on to the server's event loop, which stands still meanwhile.
    streams.loop.call_soon_threadsafe(all_are_put.wait, 10)
    for _ in range(3):
        emulator.put("orders", {}, {})
    all_are_put.set()
    assert frame(lines)["count"] == 3


def test_silence_is_broken_by_comments(clock: ManualClock, listen: Callable[..., requests.Response]) -> None:
    lines = listen().iter_lines(chunk_size=1)
    for _ in range(2):
        clock.advance(15)
        assert [next(lines), next(lines)] == [b": keep-alive", b""]


def test_the_stream_ends_with_its_token(clock: ManualClock, listen: Callable[..., requests.Response]) -> None:
    response = listen()
    clock.advance(36000)
    assert response.content == b""


def test_the_stream_ends_when_its_token_is_ended(
    emulator: EmulatorServer, listen: Callable[..., requests.Response]
) -> None:
    token = emulator.token()
    response, other = listen(token=token), listen()
    emulator.store.tokens.expire(token)
    assert response.content == b""
    emulator.put("orders", {})
    assert frame(other.iter_lines(chunk_size=1))["count"] == 1


def test_the_stream_ends_with_its_inbox(
    emulator: EmulatorServer, listen: Callable[..., requests.Response]
) -> None:
    response = listen()
    emulator.store.inboxes.delete(emulator.open_inbox("orders"))
    assert response.content == b""


def test_streams_are_counted_and_end_with_a_reset(api: Api, listen: Callable[..., requests.Response]) -> None:
    first, second = listen("orders"), listen("other")
    assert api("GET", "/_emulator/requests").json()["streams"] == 2
    api.control("/reset")
    assert (first.content, second.content) == (b"", b"")
    assert api("GET", "/_emulator/requests").json()["streams"] == 0


def test_a_client_that_leaves_is_noticed(
    emulator: EmulatorServer, listen: Callable[..., requests.Response]
) -> None:
    response = listen()
    assert len(emulator.emulator.streams.open) == 1
    response.close()
    wait_for(lambda: not emulator.emulator.streams.open)


def test_refusals_are_as_the_facts_say(emulator: EmulatorServer, api: Api) -> None:
    path = f"/inboxes/{emulator.open_inbox('orders')}/events"

    def ask(authorization: str, path: str = path) -> int:
        return api("GET", path, headers={"Authorization": authorization}).status_code

    token = emulator.token()
    assert ask(f"Bearer {token}", "/inboxes/unknown/events") == 404
    assert ask(token) == 401
    assert ask(f"Bearer {emulator.token('workflow')}") == 401
    emulator.store.tokens.expire(token)
    assert ask(f"Bearer {token}") == 401
    emulator.fault("status", operation="events", status=503)
    assert ask(f"Bearer {emulator.token()}") == 503


def test_a_dropped_stream_is_not_listed_as_open(emulator: EmulatorServer, api: Api) -> None:
    emulator.fault("drop", operation="events", when="after")
    with pytest.raises(requests.ConnectionError):
        api("GET", f"/inboxes/{emulator.open_inbox('orders')}/events")
    assert not emulator.emulator.streams.open
