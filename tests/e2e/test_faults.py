"""What the wire does to leases and acknowledgements."""

from __future__ import annotations


def test_a_token_that_expires_while_the_sensor_is_deferred_is_renewed(stage, inbox):
    run = stage.start("listener", inbox)
    run.reaches("deferred")
    stage.until(lambda: len(inbox.requests("lease")) > 2, "the trigger to look")
    stage.emulator.store.tokens.expire()
    ids = inbox.put({"n": 1})
    run.succeeds()
    stage.check_one_run_each(inbox, ids)
    assert inbox.lease_counts == [1]


def test_a_service_that_fails_for_a_while_is_outlasted_by_the_trigger(stage, inbox):
    run = stage.start("listener", inbox)
    run.reaches("deferred")
    inbox.fault("status", "lease", status=503, times=2)
    ids = inbox.put({"n": 1})
    run.succeeds()
    stage.check_one_run_each(inbox, ids)
    assert inbox.lease_counts == [1]
