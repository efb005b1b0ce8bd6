"""``make demo``, with a fake Airflow: what is put, the verdict, and the exit code."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from airflow_provider_workflow.emulator.clock import ManualClock
from airflow_provider_workflow.emulator.server import EmulatorServer
from tests.unit.fake_clock import FakeClock
from tests.unit.tools.fake_airflow import FakeAirflow, FakeAPI
from tools import demo
from tools.demo_view import Screen


@pytest.fixture
def api(emulator: EmulatorServer) -> FakeAPI:
    emulator.open_inbox(demo.INBOX)
    return FakeAPI(emulator, demo.INBOX)


@pytest.fixture
def airflow(api: FakeAPI) -> FakeAirflow:
    return FakeAirflow(api)


@pytest.fixture(autouse=True)
def _one_clock(fake_clock: FakeClock, clock: ManualClock) -> None:
    fake_clock.moved_along.append(clock)


class Shown:
    """The exit code of a demo, and what it has written."""

    def __init__(self, airflow: FakeAirflow, *, once: bool = True, chaos: bool = False) -> None:
        console = Console(file=io.StringIO(), highlight=False)
        service = airflow.api.service
        self.code = demo.show_messages(service, airflow, Screen(console), once=once, chaos=chaos)
        assert isinstance(console.file, io.StringIO)
        self.lines = console.file.getvalue().splitlines()


def test_a_run_for_each_message_is_exit_code_0_and_the_verdict_is_the_last_line(airflow: FakeAirflow) -> None:
    shown = Shown(airflow)

    assert shown.lines[-1] == "20 messages, 20 runs, 0 lost, 0 twice"
    assert shown.code == 0


def test_a_missing_run_is_exit_code_1(airflow: FakeAirflow) -> None:
    airflow.api.forgets_run_of = 7
    shown = Shown(airflow)

    assert shown.lines[-1] == "20 messages, 19 runs, 1 lost, 0 twice"
    assert "the ends of the logs" in shown.lines
    assert shown.code == 1


def test_a_demo_whose_kills_could_not_be_made_is_exit_code_1(airflow: FakeAirflow) -> None:
    # There is no task that can be killed, as "worker" of the plan.
    airflow.api.is_slow = True
    shown = Shown(airflow, chaos=True)

    assert shown.lines[-1] == "60 messages, 60 runs, 0 lost, 0 twice, 1 kills"
    assert shown.code == 1


def test_an_interrupted_demo_that_has_lost_a_message_is_exit_code_1(
    airflow: FakeAirflow, fake_clock: FakeClock
) -> None:
    airflow.api.forgets_run_of = 1
    interrupt_at(fake_clock, 3)

    assert Shown(airflow, once=False).code == 1


def interrupt_at(fake_clock: FakeClock, seconds: float) -> None:
    def meanwhile(_: float) -> None:
        if fake_clock.elapsed >= seconds:
            fake_clock.meanwhile = lambda _: None
            raise KeyboardInterrupt

    fake_clock.meanwhile = meanwhile


def test_an_example_that_does_not_name_its_inbox_once_is_an_error() -> None:
    with pytest.raises(ValueError, match="does not have the argument inbox="):
        demo.with_short_leases("from airflow.sdk import DAG")
