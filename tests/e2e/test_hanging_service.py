"""A service that hangs: the page in the API server, and the tasks that use the same API server."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import requests

from airflow_provider_workflow.plugin.responses import LONGEST_SECONDS
from airflow_provider_workflow.plugin.service import MOST_AT_ONCE

BROWSERS = 12


@pytest.fixture
def hanging(emulator) -> Iterator[list[str]]:
    """Inboxes whose messages the service does not list, nor says that it does not."""
    inboxes = [emulator.open_inbox(f"hanging-{number}") for number in range(BROWSERS)]
    rule = emulator.fault("hold", operation="list_messages", times=None)
    yield inboxes
    emulator.emulator.faults.clear(rule)
    emulator.release()


def test_a_service_that_hangs_holds_few_requests_of_the_page_and_no_task(stage, emulator, hanging):
    token = requests.get(f"{stage.airflow.url}/auth/token", timeout=60).json()["access_token"]
    headers = {"Authorization": f"Bearer {token}"}
    done, began_at = threading.Event(), time.monotonic()

    def browse(inbox_id: str) -> Counter[int]:
        statuses: Counter[int] = Counter()
        url = f"{stage.airflow.url}/workflow/api/connections/workflow_default/inboxes/{inbox_id}/messages"
        while not done.wait(0.1):
            statuses[requests.get(url, headers=headers, timeout=60).status_code] += 1
        return statuses

    def held() -> int:
        """Requests that the page sent so far: the service keeps those whose client went away, too."""
        paths = [each["path"] for each in emulator.emulator.holds.listing()]
        return sum(inbox_id in path for path in paths for inbox_id in hanging)

    with ThreadPoolExecutor(BROWSERS) as pool:
        asked = [pool.submit(browse, inbox_id) for inbox_id in hanging]
        with contextlib.ExitStack() as at_end:
            at_end.callback(done.set)
            stage.until(lambda: held() >= MOST_AT_ONCE, "as many requests to the service as there may be")
            run_id = stage.airflow.api.trigger_dag("greet")
            stage.airflow.api.wait_for_run("greet", run_id)

    statuses = sum((each.result() for each in asked), Counter())
    assert set(statuses) == {503, 504}
    # Each request to the service holds a thread of the API server for as long as an answer may take.
    turns = 1 + (time.monotonic() - began_at) / LONGEST_SECONDS
    assert held() <= MOST_AT_ONCE * turns
