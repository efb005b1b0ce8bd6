"""Pollers of one inbox that differ lease messages that the others expect: the log says so."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest

from airflow_provider_workflow.triggers import event_poller
from airflow_provider_workflow.triggers.event_poller import Stream
from tests.unit.triggers.triggerer import event_trigger

pytestmark = pytest.mark.since(3, 3, "the acknowledging of asset events")


@pytest.fixture
def stream() -> Stream:
    return Stream.of(event_trigger(match="payload").serialize()[1])


async def test_a_poller_is_alone_until_another_one_begins_at_the_same_inbox(stream: Stream) -> None:
    event_poller.begin(stream, "i")
    event_poller.begin(stream, "another")
    event_poller.begin(replace(stream, workflow_conn_id="other"), "i")
    assert event_poller.is_alone(stream, "i")

    other = replace(stream, lease_limit=1)
    event_poller.begin(other, "i")
    assert not event_poller.is_alone(stream, "i")
    event_poller.end(stream, "i")
    assert event_poller.is_alone(other, "i")


async def test_two_that_differ_are_named_with_all_that_they_differ_in(
    stream: Stream, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        event_poller.begin(stream, "i")
        event_poller.begin(replace(stream, lease_limit=1, inbox="i"), "i")

    assert "differ in inbox, lease_limit: each leases messages that the others expect" in caplog.text


async def test_one_that_follows_its_equal_is_not_worth_a_line(
    stream: Stream, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        event_poller.begin(stream, "i")
        event_poller.begin(stream, "i")

    assert caplog.text == ""
