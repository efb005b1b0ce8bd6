"""A megabyte for 20 watchers and a sensor: what is done beside the event loop, and how much in one turn."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import Any

import pytest

from airflow_provider_workflow.client import json_steps, wire
from airflow_provider_workflow.client.json_steps import UNITS
from airflow_provider_workflow.client.wire import LARGE_BODY
from airflow_provider_workflow.dispatch.lease import HeldLease
from tests.unit.fake_clock import FakeClock
from tests.unit.triggers.loops import fire, trigger
from tests.unit.triggers.triggerer import Triggerer, event_trigger
from tests.unit.workbench import Workbench

pytest.importorskip("airflow.triggers.shared_stream", reason="Airflow acknowledges asset events since 3.3")


def nested(depth: int, innermost: Any) -> Any:
    value = innermost
    for level in range(depth):
        value = {"level": level, "next": value}
    return value


ITEMS = [{"id": number, "name": f"item {number}"} for number in range(500)]
MEGABYTES: dict[str, list[Any]] = {
    "one string": [{"n": 1, "text": "lorem ipsum " * 83_000}],
    "many small fields": [{"n": 1, **{f"field {number}": f"value {number}" for number in range(33_000)}}],
    "many small objects": [{"n": 1, "items": ITEMS * 60}],
    "50 levels": [{"n": 1, "items": nested(50, ITEMS * 50)}],
    "50 levels of large lists": [{"n": 1, "levels": nested(50, ITEMS), "items": [ITEMS] * 60}],
    "25 messages": [{"n": number, "items": ITEMS * 2} for number in range(25)],
}


class Witness:
    """Stands for ``json`` of two modules; notes what is read where, and what is written in which turn."""

    def __init__(self) -> None:
        self.read_here: list[int] = []
        self.read_beside: list[int] = []
        self.written: dict[int, int] = {}
        self.turn = 0
        self._thread = threading.get_ident()
        self._loop = asyncio.get_running_loop()
        self._next_turn()

    def __getattr__(self, name: str) -> Any:
        return getattr(json, name)

    def loads(self, body: bytes, **given: Any) -> Any:
        (self.read_here if threading.get_ident() == self._thread else self.read_beside).append(len(body))
        return json.loads(body, **given)

    def dumps(self, value: Any) -> str:
        assert threading.get_ident() == self._thread
        self.written[self.turn] = self.written.get(self.turn, 0) + json_steps.units_of(value)
        return json.dumps(value)

    def _next_turn(self) -> None:
        self.turn += 1
        self._loop.call_soon(self._next_turn)


@pytest.mark.parametrize("payloads", MEGABYTES.values(), ids=MEGABYTES)
async def test_a_turn_of_the_loop_has_little_to_do_with_a_megabyte(
    payloads: list[Any],
    bench: Workbench,
    triggerer: Triggerer,
    held_clock: FakeClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for inbox in ("orders", "others"):
        bench.service.put(inbox, *payloads)
    witness = Witness()
    for module in (json_steps, wire):
        monkeypatch.setattr(module, "json", witness)
    expressions = [f"payload.n != `{number + 100}`" for number in range(20)]
    watchers = [triggerer.start(event_trigger(match=each)) for number, each in enumerate(expressions)]
    sensor = asyncio.create_task(fire(trigger(inbox="others")))
    await triggerer.work(20)

    for each in watchers:
        assert [one["payload"] for one in triggerer.stored_messages(each)] == payloads
    lease = HeldLease.from_hand_off((await sensor)["lease"])
    assert [one["payload"] for one in lease.messages] == payloads
    assert sum(size >= LARGE_BODY for size in witness.read_beside) == 2
    assert max(witness.read_here) < LARGE_BODY
    assert max(witness.written.values()) <= 2 * (UNITS + 1), "one slice each: of a watcher's, of the sensor's"
    assert len(witness.written) > 10
