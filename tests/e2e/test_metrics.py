"""Metrics arrive from the processes that really do the work: they add up to the messages that there were."""

from __future__ import annotations


def test_every_message_is_counted_on_its_way_by_triggerer_and_worker(stage, inbox, statsd):
    run = stage.start("listener", inbox)
    run.reaches("deferred")
    inbox.put(*({"n": number} for number in range(25)))
    run.succeeds()
    inbox.put(*({"n": number} for number in range(12)))
    stage.start("dispatcher", inbox).succeeds()

    # The first lease of the listener was made by the triggerer, all else by workers.
    expected = {"leased": 37, "started": 37, "acknowledged": 37}
    stage.until(lambda: statsd.counts(inbox.name) == expected, f"{expected}; {statsd.counts(inbox.name)}")
    assert all(0 <= age < 90 for age in statsd.gauges(inbox.name))
    assert any(age > 0 for age in statsd.gauges(inbox.name))


def test_what_goes_wrong_is_counted(stage, inbox, statsd):
    [good] = inbox.put({"amount": 1})
    stage.start("dispatcher", inbox, target="picky").succeeds()
    inbox.put({"amount": 1}, ids=[good])
    inbox.put({"n": "without an amount"})
    inbox.fault("status", "lease", status=429, headers={"Retry-After": "1"})
    stage.start("dispatcher", inbox, target="picky").fails()

    expected = {"leased": 3, "started": 1, "existing": 1, "acknowledged": 2, "rejected": 1}
    stage.until(lambda: statsd.counts(inbox.name) == expected, f"{expected}; {statsd.counts(inbox.name)}")
    assert statsd.counts("")["rate_limited"] >= 1


def test_a_message_that_only_crashes_knew_raises_an_alarm_in_each_task(stage, inbox, statsd):
    [lost] = inbox.put({"n": 1})
    for _ in range(5):
        stage.emulator.store.messages.lease(inbox.id)
        inbox.expire_leases()
    assert inbox.counts["quarantined"] == 1
    logs = []
    for _ in range(2):
        run = stage.start("dispatcher", inbox)
        run.succeeds()
        logs.append(run.log())

    alarm = f"message {lost} is in quarantine"
    assert [alarm in log for log in logs] == [True, True]
    stage.until(lambda: statsd.counts(inbox.name) == {"quarantined": 2}, "the metric")
