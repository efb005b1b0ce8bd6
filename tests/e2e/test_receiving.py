"""Sensors that return messages, and what ends their lease."""

from __future__ import annotations

import pytest

from airflow_provider_workflow.airflow_internals import airflow_release

# Since Airflow 3.4 clearing discards the task state otherwise, and earlier versions do not know the field.
KEEPING_STATE = {"keep_task_state": True} if airflow_release() >= (3, 4) else {}
pytestmark = pytest.mark.together
auto_acknowledgement = pytest.mark.since(3, 3, "the task state store")


@auto_acknowledgement
def test_messages_are_returned_and_acknowledged_and_a_cleared_task_returns_them_again(stage, inbox):
    run = stage.start("receiver", inbox).reaches("deferred")
    ids = inbox.put({"n": 1}, {"n": 2})
    messages = run.succeeds()
    assert [message["id"] for message in messages] == ids
    assert [message["payload"] for message in messages] == [{"n": 1}, {"n": 2}]
    assert inbox.all_acknowledged()
    later = inbox.put({"n": 3})
    stage.airflow.api.clear_task(run.dag_id, run.run_id, "work", **KEEPING_STATE)
    stage.until(lambda: run.task["try_number"] == 2 and run.task["state"] == "success", "the second try")
    assert run.result() == messages
    assert inbox.messages[later[0]]["lease_count"] == 0


@auto_acknowledgement
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_task_that_is_killed_while_it_acknowledges_returns_the_same_messages(stage, inbox, when):
    ids = inbox.put({"n": 1}, {"n": 2})
    inbox.fault("hold", "ack", when=when)
    run = stage.start("receiver", inbox)
    stage.until(inbox.held_requests, "the acknowledgement")
    run.kill_task()
    run.reaches("up_for_retry")
    inbox.release_held(drop=True)
    assert [message["id"] for message in run.succeeds()] == ids
    assert inbox.all_acknowledged()
    assert inbox.lease_counts == [1]
