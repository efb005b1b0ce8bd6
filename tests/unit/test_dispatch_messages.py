"""What a message starts, whatever its id and its payload are: one run, with a note."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from airflow_provider_workflow.dispatch.payloads import payload_of
from tests.unit.workbench import INBOX, Workbench


def test_a_message_without_an_id_is_an_error_line_and_the_others_start(
    bench: Workbench, caplog: pytest.LogCaptureFixture
) -> None:
    bench.service.put(INBOX, {"n": 1}, {"n": 2}, {"n": 3}, ids=["a", None, "c"])
    dispatcher = bench.ready_dispatcher(lease_limit=100)
    dispatcher.drain()

    assert bench.supervisor.started == ["a", "c"]
    [record] = [each for each in caplog.records if each.levelno >= logging.WARNING]
    assert "Inbox orders: the message at position 2 of lease" in record.getMessage()


def test_a_number_is_an_id_like_any_other(bench: Workbench) -> None:
    bench.service.put(INBOX, {"n": 1}, ids=[12345])
    bench.dispatcher().drain()

    assert list(bench.supervisor.runs) == [("handle", bench.run_id("12345"))]
    assert bench.states == {}


@pytest.mark.parametrize(
    ("payload", "reason"),
    [({"total": 1e20}, "a number of 2**64 or more"), ({"text": "a\0b"}, "a NUL character")],
)
def test_a_payload_that_airflow_cannot_store_starts_its_run(
    bench: Workbench, caplog: pytest.LogCaptureFixture, payload: Any, reason: str
) -> None:
    bench.put("a", payload=payload)
    bench.dispatcher().drain()

    [conf] = bench.supervisor.runs.values()
    assert conf["message"]["payload"] is None
    assert payload_of(conf["message"]) == payload
    assert bench.states == {}
    [record] = [each for each in caplog.records if each.levelno >= logging.WARNING]
    text = "Inbox orders: message a has a value that Airflow cannot store: payload is or contains"
    assert f"{text} {reason}. " in record.getMessage()


def test_a_run_has_a_note_with_its_inbox_and_message_and_the_run_that_started_it(bench: Workbench) -> None:
    bench.put("a")
    dispatcher = bench.dispatcher()
    dispatcher.origin = "the run r of listener"
    dispatcher.drain()

    [asked] = bench.supervisor.asked
    assert asked.note == "Message `a` of the inbox `orders`, started by the run r of listener"
