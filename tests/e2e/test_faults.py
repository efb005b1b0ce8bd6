"""What the wire does to leases and acknowledgements."""

from __future__ import annotations

import pytest


def test_an_acknowledgement_that_never_arrives_is_sent_again_while_runs_are_started(stage, inbox):
    ids = inbox.put({"n": 1}, {"n": 2})
    lost = inbox.fault("drop", "ack", times=5)
    run = stage.start("listener_with_retries", inbox)
    assert run.succeeds()["started"] == {"count": 2, "ids": ids}
    assert lost.met == 7, "five attempts, then one for each message"
    assert "runs of other messages are started as before" in run.log()
    stage.check_one_run_each(inbox, ids)
    assert inbox.all_acknowledged()
    assert inbox.lease_counts == [1]


@pytest.mark.since(3, 3, "retry_policy")
def test_the_pause_after_an_error_is_the_sensors_own_and_counts_the_errors(stage, inbox):
    inbox.fault("status", "lease", status=400, times=2)
    ids = inbox.put({"n": 1})
    run = stage.start("listener_that_backs_off", inbox)
    assert run.succeeds()["started"]["ids"] == ids
    assert "Tries ended by an error: 1; pause before a retry: 3 s" in run.log(1)
    assert "Tries ended by an error: 2; pause before a retry: 6 s" in run.log(2)


def test_an_acknowledgement_whose_answer_is_lost_is_repeated_without_harm(stage, inbox):
    ids = inbox.put({"n": 1}, {"n": 2})
    inbox.fault("drop", "ack", when="after")
    run = stage.start("listener", inbox)
    assert run.succeeds()["started"]["count"] == 2
    assert len(inbox.requests("ack")) == 3, "the pilot's twice, and that of the other message"
    stage.check_one_run_each(inbox, ids)
    assert inbox.all_acknowledged()


def test_a_message_that_is_delivered_twice_starts_one_run(stage, inbox):
    ids = inbox.put(*[{"n": n} for n in range(5)])
    inbox.fault("duplicate", "lease")
    run = stage.start("listener_of_five", inbox)
    result = run.succeeds()
    assert result["started"]["count"] + result["existing"]["count"] == 5
    assert len(inbox.requests("ack")) == 2
    stage.check_one_run_each(inbox, ids)
    assert inbox.all_acknowledged()


def test_a_lease_whose_answer_is_lost_is_not_repeated_and_its_messages_come_again(stage, inbox):
    ids = inbox.put({"n": 1})
    inbox.fault("drop", "lease", when="after")
    run = stage.start("listener", inbox)
    run.reaches("deferred")
    inbox.expire_leases()
    assert run.succeeds()["started"] == {"count": 1, "ids": ids}
    assert inbox.lease_counts == [2]
    assert run.task["try_number"] == 1, "a fault that passes costs no retry"
    stage.check_one_run_each(inbox, ids)


def test_a_token_that_expires_between_two_leases_is_renewed(stage, inbox):
    ids = inbox.put(*[{"n": n} for n in range(12)])
    inbox.fault("hold", "lease", after=1)
    run = stage.start("listener_of_five", inbox)
    stage.until(inbox.held, "the second lease")
    stage.emulator.store.tokens.expire()
    inbox.release_held()
    assert run.succeeds()["started"]["count"] == 12
    assert 400 in [request.status for request in inbox.requests("lease")]
    stage.check_one_run_each(inbox, ids)
    assert inbox.lease_counts == [1]


def test_a_token_that_expires_while_the_sensor_is_deferred_is_renewed(stage, inbox):
    run = stage.start("listener", inbox)
    run.reaches("deferred")
    stage.until(lambda: len(inbox.requests("lease")) > 2, "the trigger to look")
    stage.emulator.store.tokens.expire()
    ids = inbox.put({"n": 1})
    run.succeeds()
    stage.check_one_run_each(inbox, ids)
    assert inbox.lease_counts == [1]


def test_a_rate_limit_in_the_middle_is_waited_out(stage, inbox):
    ids = inbox.put(*[{"n": n} for n in range(10)])
    limit = {"status": 429, "headers": {"Retry-After": "2"}}
    inbox.fault("status", "lease", after=1, **limit)
    inbox.fault("status", "ack", after=1, **limit)
    run = stage.start("listener_of_five", inbox)
    assert run.succeeds()["started"]["count"] == 10
    stage.check_one_run_each(inbox, ids)
    assert inbox.lease_counts == [1]
    for operation in ("lease", "ack"):
        requests = inbox.requests(operation)
        refused = [request.status for request in requests].index(429)
        assert requests[refused + 1].at - requests[refused].at >= 2, "Retry-After is respected"


def test_a_rate_limit_of_the_trigger_is_waited_out(stage, inbox):
    run = stage.start("listener", inbox)
    run.reaches("deferred")
    inbox.fault("status", "lease", status=429, headers={"Retry-After": "1"}, times=2)
    ids = inbox.put({"n": 1})
    run.succeeds()
    stage.check_one_run_each(inbox, ids)
    assert [request.status for request in inbox.requests("lease")].count(429) == 2


def test_a_service_that_fails_for_a_while_is_outlasted_by_the_trigger(stage, inbox):
    run = stage.start("listener", inbox)
    run.reaches("deferred")
    inbox.fault("status", "lease", status=503, times=2)
    ids = inbox.put({"n": 1})
    run.succeeds()
    stage.check_one_run_each(inbox, ids)
    assert inbox.lease_counts == [1]
