"""What state the inbox is in, and how long a sensor waits for it."""

from __future__ import annotations


def test_an_inbox_that_is_paused_while_the_sensor_waits_fails_the_task(stage, inbox):
    run = stage.start("listener", inbox)
    run.reaches("deferred")
    inbox.force("paused", "upstream_failures")
    assert f"Inbox '{inbox.name}' is paused (upstream_failures)" in run.fails()


def test_a_sensor_that_waits_for_a_paused_inbox_goes_on_after_its_resumption(stage, inbox):
    inbox.force("paused", "user")
    run = stage.start("listener_that_waits", inbox)
    run.reaches("deferred")
    refused = lambda: [each.status for each in inbox.requests("lease")].count(409)  # noqa: E731
    stage.until(lambda: refused() > 1, "the trigger to find it paused")
    assert run.task["state"] == "deferred"
    stage.emulator.store.inboxes.resume(inbox.id)
    ids = inbox.put({"n": 1})
    assert run.succeeds()["started"]["count"] == 1
    stage.check_one_run_each(inbox, ids)


def test_an_inbox_that_fails_to_initialize_while_the_sensor_waits_fails_the_task_at_once(stage, inbox):
    run = stage.start("listener_with_retries", inbox)
    run.reaches("deferred")
    inbox.force("initialization_failure", "subscribe_failed")
    log = run.fails()
    assert "failed to initialize (subscribe_failed). Delete it and create it again." in log
    assert run.task["try_number"] == 1, "a retry cannot help"


def test_a_deferred_sensor_that_times_out_fails_without_a_retry(stage, inbox):
    run = stage.start("impatient_listener", inbox)
    soft = stage.start("impatient_soft_listener", inbox)
    poking = stage.start("impatient_poking_listener", inbox)
    assert "AirflowSensorTimeout" in run.fails()
    assert run.task["try_number"] == 1
    soft.reaches("skipped")
    assert "AirflowSensorTimeout" in poking.fails()
