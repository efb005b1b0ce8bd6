"""Messages that Airflow rejects: each has one run of the dead-letter DAG, also if the worker is killed."""

from __future__ import annotations

import pytest

from tests.e2e.test_every_step import ON_WORKER, Step, kill, stops

__all__ = ["stops"]

pytestmark = pytest.mark.since(3, 3, "an answer that tells why a run is rejected")
STEPS = (
    Step("after start run", ON_WORKER, runs=3, acked=1, leased=4, times=4),
    Step("before acknowledge", ON_WORKER, runs=3, acked=1, leased=4, times=2),
)
"""
The second lease has two rejected messages and two that are started, which show who is at fault. Then
the dead letters are started: the fourth run is that of the first one.
"""


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.point)
def test_a_worker_killed_beside_a_dead_letter_loses_and_doubles_nothing(stage, inbox, stops, step):
    good, bad = ["good-1", "good-2", "good-3"], ["bad-1", "bad-2"]
    inbox.put(*(["x"] * 5), ids=[good[0], *bad, *good[1:]])
    stops.arm(step)
    run = stage.start("dispatcher_with_dead_letters", inbox, target="fastidious")
    pid = stage.until(lambda: stops.reached(step), f"a process to stop {step.point}")
    assert len(stage.runs_of(inbox, "fastidious")) == step.runs
    assert (inbox.counts["leased"], inbox.counts["acked"]) == (step.leased, step.acked)
    kill(stage, step, pid)
    stops.clear()
    run.reaches("up_for_retry")
    inbox.expire_leases()
    run.reaches("success", "failed")
    # A rejected message that is alone may be sound: it is decided after the target has started another one.
    for number in range(4, 7):
        if not inbox.all_acknowledged():
            inbox.expire_leases()
            good += inbox.put("x", ids=[f"good-{number}"])
            stage.start("dispatcher_with_dead_letters", inbox, target="fastidious").reaches(
                "success", "failed"
            )

    assert inbox.all_acknowledged()
    stage.check_one_run_each(inbox, good, "fastidious")
    stage.check_one_run_each(inbox, bad, "dead_letters")


def test_a_sensor_leaves_no_rejected_message_and_does_not_fail_for_one(stage, inbox):
    run = stage.start("listener_with_dead_letters", inbox, target="fastidious")
    run.reaches("deferred")
    inbox.put(*(["x"] * 3), ids=["good-1", "bad-1", "good-2"])
    result = run.succeeds()

    assert result["dead_lettered"] == {"count": 1, "ids": ["bad-1"]}
    assert inbox.all_acknowledged()
    stage.check_one_run_each(inbox, ["bad-1"], "dead_letters")
