"""``kill -9`` wherever a message could be lost or be worked on twice."""

from __future__ import annotations

import os
import signal

import pytest

from tests.e2e.watching import expire_what_was_not_handed_over, restart_triggerer


def test_a_triggerer_killed_between_lease_and_hand_over_loses_nothing(stage, inbox):
    run = stage.start("listener_with_retries", inbox).reaches("deferred")
    ids = stage.hold_a_lease(inbox, {"n": 1}, {"n": 2}, {"n": 3})
    stage.airflow.kill("triggerer", tree=True)
    inbox.release_held(drop=True)
    expire_what_was_not_handed_over(inbox, run)
    restart_triggerer(stage)
    run.succeeds()
    stage.wait_until_succeeded(inbox, ids)
    stage.until(inbox.all_acknowledged, "the acknowledgement")


def test_a_scheduler_killed_while_messages_arrive_starts_each_run_once(stage, inbox):
    run = stage.start("listener_with_retries", inbox).reaches("deferred")
    stage.airflow.kill("scheduler", tree=True)
    ids = inbox.put({"n": 1}, {"n": 2})
    stage.until(lambda: inbox.leases_made, "the trigger to lease")
    stage.airflow.restart("scheduler")
    stage.airflow.wait_until_healthy()
    assert run.succeeds()["started"]["count"] == 2
    stage.wait_until_succeeded(inbox, ids)


@pytest.mark.parametrize("part", ["the triggerer, whose trigger runner is orphaned", "the trigger runner"])
def test_half_a_triggerer_that_is_killed_takes_no_messages_with_it(stage, inbox, part):
    run = stage.start("listener", inbox).reaches("deferred")
    stage.until(lambda: len(inbox.requests("lease")) > 2, "the trigger to look")
    if part == "the trigger runner":
        os.kill(max(stage.airflow.pids("triggerer")), signal.SIGKILL)
    else:
        stage.airflow.kill("triggerer")
    ids = inbox.put({"n": 1}, {"n": 2})
    # An orphan lives on for a moment, and may lease what it can no longer hand over.
    stage.until(lambda: not stage.airflow.pids("triggerer"), "the rest of it to end")
    expire_what_was_not_handed_over(inbox, run)
    restart_triggerer(stage)
    assert run.succeeds()["started"]["count"] == 2
    stage.check_one_run_each(inbox, ids)
    assert inbox.all_acknowledged()


def test_a_triggerer_that_is_told_to_stop_while_it_leases_loses_nothing(stage, inbox):
    """Airflow itself drops an event that is fired as it stops; then the lease has to run out."""
    run = stage.start("listener", inbox).reaches("deferred")
    ids = stage.hold_a_lease(inbox, {"n": 1}, {"n": 2})
    stage.airflow.kill("triggerer", signal.SIGTERM)
    inbox.release_held()
    stage.until(lambda: not stage.airflow.pids("triggerer"), "the triggerer to end")
    expire_what_was_not_handed_over(inbox, run)
    restart_triggerer(stage)
    run.succeeds()
    stage.wait_until_succeeded(inbox, ids)
    stage.until(inbox.all_acknowledged, "the acknowledgement")
