"""The event stream over a real socket."""

from __future__ import annotations

import json
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


def test_silence_is_broken_by_comments(clock: ManualClock, listen: Callable[..., requests.Response]) -> None:
    lines = listen().iter_lines(chunk_size=1)
    for _ in range(2):
        clock.advance(15)
        assert [next(lines), next(lines)] == [b": keep-alive", b""]


def test_the_stream_ends_when_its_token_is_ended(
    emulator: EmulatorServer, listen: Callable[..., requests.Response]
) -> None:
    token = emulator.token()
    response, other = listen(token=token), listen()
    emulator.store.tokens.expire(token)
    assert response.content == b""
    emulator.put("orders", {})
    assert frame(other.iter_lines(chunk_size=1))["count"] == 1


def test_streams_are_counted_and_end_with_a_reset(api: Api, listen: Callable[..., requests.Response]) -> None:
    first, second = listen("orders"), listen("other")
    assert api("GET", "/_emulator/requests").json()["streams"] == 2
    api.control("/reset")
    assert (first.content, second.content) == (b"", b"")
    assert api("GET", "/_emulator/requests").json()["streams"] == 0
