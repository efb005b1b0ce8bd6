"""How a trigger finds its inbox and hears of its messages: event stream, and polling beneath."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Protocol

from airflow_provider_workflow import clock
from airflow_provider_workflow.client import api, types
from airflow_provider_workflow.client.addresses import host_of

if TYPE_CHECKING:
    from airflow_provider_workflow.client.client import AsyncWorkflowClient
    from airflow_provider_workflow.client.events import Bell

TICK_SECONDS = 0.25
"""Waits end at multiples of it: what polls together shares its wake-ups, and takes half the CPU or less."""


class Waits(Protocol):
    """The arguments of whatever waits for the messages of an inbox."""

    @property
    def inbox(self) -> str: ...
    @property
    def wake_on_events(self) -> bool: ...
    @property
    def poll_interval(self) -> float: ...
    @property
    def max_poll_interval(self) -> float: ...


def log_wait(log: logging.Logger, client: AsyncWorkflowClient, waits: Waits) -> None:
    """Say that waiting begins: for which inbox, where, and how."""
    log.info(
        "Inbox %s at %s: waiting for messages, %severy %g to %g s",
        waits.inbox,
        host_of(client.settings.base_url),
        "by its event stream and by polling " if waits.wake_on_events else "by polling ",
        waits.poll_interval,
        waits.max_poll_interval,
    )


async def look_up(client: AsyncWorkflowClient, inbox: str) -> types.Inbox:
    """
    An inbox as it is now; one that was deleted and created again under its name is found again.

    :param inbox: id or name.
    :raises NotFoundError: there is no such inbox.
    """
    from airflow_provider_workflow.client import inboxes

    return await client.run(inboxes.at_inbox(client.settings, inbox, api.get_inbox))


async def find_inbox(client: AsyncWorkflowClient, inbox: str) -> str:
    """
    The id of an inbox.

    :param inbox: id or name.
    :raises NotFoundError: there is no such inbox.
    """
    return (await look_up(client, inbox))["id"]


@asynccontextmanager
async def bell_of(
    client: AsyncWorkflowClient, inbox_id: str, wake_on_events: bool = True
) -> AsyncIterator[Bell | None]:
    """
    The bell of an inbox's event stream, or None where nobody wants one.

    The stream is shared by all that listen to the inbox; beyond ``[workflow] max_event_streams`` the bell
    never rings, and polling does.
    """
    from airflow_provider_workflow.client.events import listen
    from airflow_provider_workflow.configuration import max_event_streams

    if not wake_on_events:
        yield None
        return
    async with listen(client, inbox_id, max_event_streams()) as bell:
        yield bell


async def wait_for(bell: Bell | None, seconds: float) -> bool:
    """
    Wait for a ring; whether it rang.

    :param seconds: at most, 0 or more; up to :data:`TICK_SECONDS` longer, so that others end then too.
    """
    seconds = until_tick(clock.monotonic(), seconds)
    if bell is not None:
        return await bell.wait(seconds)
    await clock.async_sleep(seconds)
    return False


def until_tick(now: float, seconds: float) -> float:
    """
    As many seconds, and those to the next tick.

    :param now: seconds of a clock that all share.
    """
    return seconds + -(now + seconds) % TICK_SECONDS
