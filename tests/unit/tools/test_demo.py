"""``make demo``, with a fake Airflow: what is put, the verdict, and the exit code."""

from __future__ import annotations

import io

import pytest
import requests
from rich.console import Console

from airflow_provider_workflow.emulator.clock import ManualClock
from airflow_provider_workflow.emulator.server import EmulatorServer
from tests.unit.fake_clock import FakeClock
from tests.unit.tools.fake_airflow import FakeAirflow, FakeAPI
from tools import demo
from tools.airflow_api import AirflowAPIError
from tools.demo_kills import PLAN
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


def test_a_second_run_of_a_message_is_exit_code_1(airflow: FakeAirflow) -> None:
    airflow.api.starts_twice = 7
    shown = Shown(airflow)

    assert shown.lines[-1] == "20 messages, 21 runs, 0 lost, 1 twice"
    assert shown.code == 1


def test_a_failed_run_is_exit_code_1(airflow: FakeAirflow) -> None:
    airflow.api.state = "failed"

    assert Shown(airflow).code == 1


def test_errors_of_the_api_and_its_database_are_waited_for(airflow: FakeAirflow) -> None:
    errors = [requests.ConnectionError("away"), AirflowAPIError("GET", "dags", 500, "Database error")]

    def fail() -> None:
        if errors:
            raise errors.pop()

    airflow.api.before_listing = fail

    assert Shown(airflow).code == 0
    assert not errors


def test_a_request_that_airflow_rejects_ends_the_demo(airflow: FakeAirflow) -> None:
    def fail() -> None:
        raise AirflowAPIError("GET", "dags", 403, "no")

    airflow.api.before_listing = fail
    with pytest.raises(AirflowAPIError):
        Shown(airflow)


def test_with_chaos_60_messages_are_put_and_each_kill_is_a_line_and_part_of_the_verdict(
    airflow: FakeAirflow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "PLAN", ("triggerer", "scheduler") * 2 + ("triggerer",))
    airflow.api.is_slow = True
    shown = Shown(airflow, chaos=True)

    assert shown.lines[-1] == "60 messages, 60 runs, 0 lost, 0 twice, 5 kills"
    assert shown.code == 0
    assert len([line for line in shown.lines if " s: killed the " in line]) == 5
    assert [name for what, name in airflow.done if what == "kill"] == list(demo.PLAN)
    assert any("leased again" in line for line in shown.lines), "a kill took a lease with it"


def test_a_demo_whose_kills_could_not_be_made_is_exit_code_1(airflow: FakeAirflow) -> None:
    # There is no task that can be killed, as "worker" of the plan.
    airflow.api.is_slow = True
    shown = Shown(airflow, chaos=True)

    assert shown.lines[-1] == "60 messages, 60 runs, 0 lost, 0 twice, 1 kills"
    assert shown.code == 1


@pytest.mark.parametrize("chaos", [False, True])
def test_an_interrupted_demo_ends_with_the_verdict_so_far(
    airflow: FakeAirflow, fake_clock: FakeClock, chaos: bool
) -> None:
    interrupt_at(fake_clock, 3)
    shown = Shown(airflow, once=False, chaos=chaos)

    assert shown.lines[-2] == "Stopping ..."
    assert " 0 lost, 0 twice" in shown.lines[-1]
    assert shown.code == 0


def test_an_interrupted_demo_that_has_lost_a_message_is_exit_code_1(
    airflow: FakeAirflow, fake_clock: FakeClock
) -> None:
    airflow.api.forgets_run_of = 1
    interrupt_at(fake_clock, 3)

    assert Shown(airflow, once=False).code == 1


def test_chaos_that_is_not_to_end_by_itself_leaves_airflow_running_after_the_verdict(
    airflow: FakeAirflow, fake_clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "PLAN", ("triggerer",))
    airflow.api.is_slow = True
    interrupt_at(fake_clock, 1000)
    shown = Shown(airflow, once=False, chaos=True)

    assert shown.lines[-2] == "12 messages, 12 runs, 0 lost, 0 twice, 1 kills"
    assert shown.lines[-1].endswith("; Ctrl-C stops everything")
    assert shown.code == 0
    assert fake_clock.elapsed >= 1000


def interrupt_at(fake_clock: FakeClock, seconds: float) -> None:
    def meanwhile(_: float) -> None:
        if fake_clock.elapsed >= seconds:
            fake_clock.meanwhile = lambda _: None
            raise KeyboardInterrupt

    fake_clock.meanwhile = meanwhile


def test_the_plain_demo_puts_messages_without_end() -> None:
    sizes = demo.burst_sizes(once=False, chaos=False)

    assert {next(sizes) for _ in range(200)} == {1, 2, 5}


def test_bursts_wait_for_the_kill_before_them(
    airflow: FakeAirflow, fake_clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is no task that could be killed, and a run that is missing keeps the demo from being done."""
    monkeypatch.setattr(demo, "PLAN", ("worker", "worker"))
    airflow.api.forgets_run_of = 1
    interrupt_at(fake_clock, 200)
    shown = Shown(airflow, chaos=True)

    assert shown.lines[-1].startswith("12 messages, 11 runs, 1 lost")


def test_chaos_puts_60_messages() -> None:
    assert sum(demo.burst_sizes(once=True, chaos=True)) == 12 * len(PLAN) == 60


def test_the_dag_of_chaos_is_the_example_with_the_shortest_leases() -> None:
    text = demo.EXAMPLE.read_text()

    short = demo.with_short_leases(text)
    assert short.count("lease_seconds=60") == 1
    assert short.replace(", lease_seconds=60", "") == text


def test_an_example_that_does_not_name_its_inbox_once_is_an_error() -> None:
    with pytest.raises(ValueError, match="does not have the argument inbox="):
        demo.with_short_leases("from airflow.sdk import DAG")
