"""Requests that are held, over a real socket."""

from __future__ import annotations

import threading
import time

import pytest
import requests

from airflow_provider_workflow.emulator.server import EmulatorServer
from tests.unit.emulator.conftest import Api
from tests.unit.emulator.web.helpers import leases, raw


@pytest.mark.parametrize(("when", "effect_while_held"), [("before", 0), ("after", 1)])
def test_a_request_is_held_until_it_is_released(
    emulator: EmulatorServer, api: Api, lease_path: str, when: str, effect_while_held: int
) -> None:
    emulator.fault("hold", operation="lease", when=when)
    answers: list[requests.Response] = []
    thread = threading.Thread(target=lambda: answers.append(api("POST", lease_path)))
    thread.start()
    (held,) = emulator.wait_until_held()
    assert (held["operation"], held["when"]) == ("lease", when)
    assert leases(emulator) == effect_while_held
    assert emulator.emulator.holds.listing() == [held]
    assert emulator.release(held["id"]) == 1
    thread.join(5)
    assert answers[0].status_code == 201
    assert leases(emulator) == 1


def test_a_held_request_can_be_dropped_instead(emulator: EmulatorServer, api: Api, lease_path: str) -> None:
    emulator.fault("hold", operation="lease")
    failures: list[Exception] = []

    def ask() -> None:
        try:
            api("POST", lease_path)
        except requests.ConnectionError as error:
            failures.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    emulator.wait_until_held()
    emulator.release(drop=True)
    thread.join(5)
    assert len(failures) == 1
    assert leases(emulator) == 0


def test_a_client_that_is_killed_while_held_has_had_its_effect_once_released(
    emulator: EmulatorServer, api: Api
) -> None:
    emulator.fault("hold", operation="list_inboxes")
    raw(emulator, api).close()
    emulator.wait_until_held()
    emulator.release()
    for _ in range(100):
        if emulator.requests[0].status == 200:
            break
        time.sleep(0.01)
    assert emulator.requests[0].status == 200
