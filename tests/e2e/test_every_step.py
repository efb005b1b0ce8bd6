"""
Processes of a real Airflow stopped at steps from lease to acknowledgement, and killed there.

The simulation (tests/simulation) kills at every call; here are the steps at which Airflow itself has a part.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from airflow_provider_workflow.emulator.server import EmulatorServer
from tests.e2e.leaks import REFUSED
from tests.e2e.stage import Stage
from tests.e2e.watching import expire_what_was_not_handed_over, restart_triggerer
from tools.local_airflow import LocalAirflow

pytestmark = pytest.mark.since(3, 3, "leases and acknowledgements in this order")
IN_TRIGGERER, ON_WORKER = "triggerer", "worker"


@dataclass(frozen=True)
class Step:
    """
    :param point: where the process stands still.
    :param where: whose process that is.
    :param runs: how many of the messages have a run by then.
    :param acked: how many are acknowledged by then.
    :param leased: how many are leased then.
    :param times: how often the point is passed until then.
    :param meanwhile: a later point, at which the process that continues the work stops until the kill.
    """

    point: str
    where: str
    runs: int = 0
    acked: int = 0
    leased: int = 1
    times: int = 1
    meanwhile: str | None = None


STEPS = (
    Step("after hand off", IN_TRIGGERER),
    Step("before store event", IN_TRIGGERER),
    # The event is stored: without the second stop, a worker could start the first run before it is counted.
    Step("after store event", IN_TRIGGERER, meanwhile="before resume"),
    Step("before resume", ON_WORKER),
    Step("before acknowledge", ON_WORKER, runs=3, acked=1, leased=2, times=2),
)
"""Of three messages: the first lease is one message, the second the other two."""


@dataclass(frozen=True)
class Stops:
    """The folder by which processes are told where to stand still, and tell that they do."""

    folder: Path

    def arm(self, step: Step) -> None:
        (self.folder / f"{step.point}.armed").write_text(str(step.times))
        if step.meanwhile:
            (self.folder / f"{step.meanwhile}.armed").write_text("1")

    def reached(self, step: Step) -> int | None:
        """The id of the process that stands still."""
        file = self.folder / f"{step.point}.reached"
        return int(file.read_text() or 0) if file.exists() else None

    def clear(self) -> None:
        for file in self.folder.iterdir():
            file.unlink()


@pytest.fixture
def stage(airflow: LocalAirflow, emulator: EmulatorServer) -> Stage:
    """The Airflow, without the run that fails for a wrong secret unless another file has started it."""
    return Stage(airflow, emulator)


@pytest.fixture
def stops(stops_folder: Path, stage: Stage) -> Iterator[Stops]:
    # The first process that comes by stands still, and that is to be one of the test.
    api = stage.airflow.api
    stage.airflow.wait_for_dags([REFUSED])
    stage.until(lambda: {run["state"] for run in api.dag_runs(REFUSED)} <= {"failed"}, f"{REFUSED} to end")
    stops = Stops(stops_folder)
    yield stops
    stops.clear()


@pytest.mark.parametrize(
    "step", STEPS, ids=lambda step: f"{step.point}, {step.runs} runs, {step.acked} acked"
)
def test_a_process_killed_at_a_step_loses_and_doubles_nothing(stage, inbox, stops, step):
    run = stage.start("listener_with_retries", inbox).reaches("deferred")
    stops.arm(step)
    ids = inbox.put({"n": 1}, {"n": 2}, {"n": 3})
    kill_at(step, stage, inbox, stops)
    later = inbox.put({"n": 4})
    if step.where == IN_TRIGGERER:
        expire_what_was_not_handed_over(inbox, run)
        restart_triggerer(stage)
    else:
        run.reaches("up_for_retry")
        inbox.expire_leases()
    run.succeeds()
    if not inbox.all_acknowledged():
        # The message that was put last waits for a listener of its own.
        stage.start("dispatcher_with_retries", inbox).succeeds()
    stage.wait_until_succeeded(inbox, ids + later)
    assert inbox.all_acknowledged()


def test_a_worker_killed_beside_a_dead_letter_loses_and_doubles_nothing(stage, inbox, stops):
    # The second lease has two rejected messages and two that are started, which show who is at fault. Then
    # the dead letters are started: the fourth run is that of the first one.
    step = Step("after start run", ON_WORKER, runs=3, acked=1, leased=4, times=4)
    good, bad = ["good-1", "good-2", "good-3"], ["bad-1", "bad-2"]
    inbox.put(*(["x"] * 5), ids=[good[0], *bad, *good[1:]])
    stops.arm(step)
    run = stage.start("dispatcher_with_dead_letters", inbox, target="fastidious")
    kill_at(step, stage, inbox, stops, "fastidious")
    run.reaches("up_for_retry")
    inbox.expire_leases()
    run.reaches("success", "failed")
    # A rejected message that is alone may be sound: it is decided after the target has started another one.
    for number in range(4, 7):
        if not inbox.all_acknowledged():
            inbox.expire_leases()
            good += inbox.put("x", ids=[f"good-{number}"])
            again = stage.start("dispatcher_with_dead_letters", inbox, target="fastidious")
            again.reaches("success", "failed")
    assert inbox.all_acknowledged()
    stage.check_one_run_each(inbox, good, "fastidious")
    stage.check_one_run_each(inbox, bad, "dead_letters")


def kill_at(step: Step, stage, inbox, stops: Stops, target: str = "target") -> None:
    """Kill the process that stands still at a step, after a look at what is done by then."""
    pid = stage.until(lambda: stops.reached(step), f"a process to stop {step.point}")
    assert len(stage.runs_of(inbox, target)) == step.runs
    assert (inbox.counts["leased"], inbox.counts["acked"]) == (step.leased, step.acked)
    if step.where == IN_TRIGGERER:
        assert pid in stage.airflow.pids("triggerer")
        stage.airflow.kill("triggerer", tree=True)
    else:
        os.kill(pid, signal.SIGKILL)
    stops.clear()
