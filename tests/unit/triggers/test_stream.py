"""Pollers of one inbox that differ take messages from each other: the log says so."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest

from airflow_provider_workflow.triggers import stream as streams
from airflow_provider_workflow.triggers.stream import Stream
from tests.unit.triggers.triggerer import event_trigger

pytestmark = pytest.mark.since(3, 3, "the acknowledging of asset events")


@pytest.fixture
def stream() -> Stream:
    return Stream.of(event_trigger(match="payload").serialize()[1])


async def test_a_poller_is_alone_until_another_one_begins_at_the_same_inbox(stream: Stream) -> None:
    streams.begin(stream, "i")
    streams.begin(stream, "another")
    streams.begin(replace(stream, workflow_conn_id="other"), "i")
    assert streams.is_alone(stream, "i")

    other = replace(stream, lease_limit=1)
    streams.begin(other, "i")
    assert not streams.is_alone(stream, "i")
    streams.end(stream, "i")
    assert streams.is_alone(other, "i")


async def test_two_that_differ_are_named_with_all_that_they_differ_in(
    stream: Stream, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        streams.begin(stream, "i")
        streams.begin(replace(stream, lease_limit=1, inbox="i"), "i")

    assert "differ in inbox, lease_limit: they take messages from each other" in caplog.text


async def test_one_that_follows_its_equal_is_not_worth_a_line(
    stream: Stream, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        streams.begin(stream, "i")
        streams.begin(stream, "i")

    assert caplog.text == ""
