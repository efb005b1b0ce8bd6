"""An inbox that was deleted, and is created again under its name while a task waits for it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from airflow_provider_workflow.emulator.clock import ManualClock
from airflow_provider_workflow.emulator.server import EmulatorServer
from tests.unit.fake_clock import FakeClock
from tests.unit.workbench import INBOX

LOOKING = "Inbox orders does not exist (any more); looking it up by its name for 30 s"


def put_in_a_new_inbox(service: EmulatorServer, *ids: str) -> str:
    """Create the inbox again, with these messages; its id."""
    inbox_id = service.open_inbox(INBOX)
    service.put(INBOX, *({"n": each} for each in ids), ids=list(ids))
    return inbox_id


@pytest.fixture
def created_again(
    connected: EmulatorServer, fake_clock: FakeClock, clock: ManualClock
) -> Callable[..., None]:
    """
    Let the inbox be created again, with these messages, in so many seconds of the task's clock.

    The clock of the service goes on with that of the task.
    """
    fake_clock.moved_along.append(clock)

    def plan(seconds: float, *ids: str) -> None:
        fake_clock.at(fake_clock.now() + seconds, lambda: put_in_a_new_inbox(connected, *ids))

    return plan
