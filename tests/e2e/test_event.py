"""Messages in asset events: none is acknowledged that is in no stored event, whatever is killed."""

from __future__ import annotations

import time
from collections import Counter

import pytest

from airflow_provider_workflow.assets import messages_of
from airflow_provider_workflow.dispatch.delivery import delivery_count
from tests.e2e.stage import PATIENCE_SECONDS, Inbox
from tests.e2e.watching import dag_file, publishing, restart_triggerer, worked_on

IMPORTS = """
from airflow.sdk import DAG, Asset, AssetWatcher, task

from airflow_provider_workflow.triggers.event import WorkflowInboxEventTrigger
"""
TRIGGER = "WorkflowInboxEventTrigger({name!r}, poll_interval=1, max_poll_interval=4)"
PER_MESSAGE = "WorkflowInboxEventTrigger({name!r}, poll_interval=1, max_poll_interval=4, per_message=True)"
DAG_TEXT = """
watched = Asset({name!r}, watchers=[AssetWatcher(name={name!r}, trigger={trigger})])

with DAG({name!r}, schedule=[watched]):

    @task(task_id="work")
    def work(triggering_asset_events=None):
        events = triggering_asset_events[watched]
        return [message["id"] for event in events for message in messages_of(event)]

    work()
"""
STRANDED_SECONDS = 20.0
"""How long runs are waited for after the last message was acknowledged: what has none by then is stranded."""


def text_of(name, trigger=TRIGGER) -> str:
    return IMPORTS + DAG_TEXT.format(name=name, trigger=trigger.format(name=name))


def stored_events(stage, name) -> list[dict]:
    """The messages in the stored events of an asset."""
    return [
        message for event in stage.airflow.api.asset_events(name) for message in messages_of(event["extra"])
    ]


def account(stage, inbox: Inbox, ids, patience: float = STRANDED_SECONDS) -> dict[str, int]:
    """
    Wait until all is acknowledged and Airflow has started what it starts, and count messages.

    :return: ``acknowledged``: gone from the inbox; ``lost``: gone from it, or in quarantine, and in no stored
        event; ``duplicates``: in further events; ``hidden``: so, with the delivery count 1; ``stranded``: in
        stored events that Airflow has started no run with.
    """
    stage.until(
        lambda: inbox.counts["acked"] + inbox.counts["quarantined"] == len(ids),
        f"{len(ids)} messages to be acknowledged, of which {inbox.counts}",
    )
    messages = stored_events(stage, inbox.name)
    times = Counter(message["id"] for message in messages)
    unmarked = Counter(message["id"] for message in messages if delivery_count(message) == 1)
    deadline = time.monotonic() + patience
    while (missing := set(times) - set(worked_on(stage, inbox.name))) and time.monotonic() < deadline:
        time.sleep(1)
    return {
        "acknowledged": inbox.counts["acked"],
        "lost": len(set(ids) - set(times)),
        "duplicates": times.total() - len(times),
        "hidden": unmarked.total() - len(unmarked),
        "stranded": len(missing),
    }


@pytest.mark.together
def test_sixty_messages_are_in_events_of_both_assets_of_a_trigger_once_each(stage, dags_folder, inbox):
    name, second = inbox.name, f"{inbox.name}-second"
    text = text_of(name) + DAG_TEXT.format(name=second, trigger=TRIGGER.format(name=name))
    with dag_file(stage, dags_folder, name, text, name, second):
        with publishing(inbox, 60, seed=1, longest_pause=0.5) as ids:
            pass
        totals = account(stage, inbox, ids)

    assert [totals[name_of_total] for name_of_total in ("acknowledged", "lost", "duplicates")] == [60, 0, 0]
    assert sorted(message["id"] for message in stored_events(stage, second)) == sorted(ids)
    assert inbox.lease_counts == [1]


def test_a_triggerer_that_is_told_to_stop_loses_nothing_and_gives_back_what_it_holds(
    stage, dags_folder, inbox
):
    with dag_file(stage, dags_folder, inbox.name, text_of(inbox.name), inbox.name):
        ids = inbox.put(*({"n": n} for n in range(4)), {"n": "\0 \ud800"})
        # What is leased, but not yet held for its event, is redelivered when its lease ends.
        stage.until(lambda: stored_events(stage, inbox.name), "the event")
        stage.airflow.restart("triggerer", grace=15)
        assert inbox.counts["leased"] == 0
        stage.airflow.wait_until_healthy()
        totals = account(stage, inbox, ids)

    assert [totals[name_of_total] for name_of_total in ("acknowledged", "lost", "hidden")] == [5, 0, 0]


@pytest.mark.since(3, 4, "a DAG run for each asset event")
def test_each_message_has_a_run_of_its_own_however_often_its_triggerer_is_killed(stage, dags_folder, inbox):
    api, name = stage.airflow.api, inbox.name
    with dag_file(stage, dags_folder, name, text_of(name, PER_MESSAGE), name):
        with publishing(inbox, 20, seed=1, longest_pause=2.0) as ids:
            stage.until(lambda: inbox.leases_made, "a lease")
            time.sleep(1.5)
            stage.airflow.kill("triggerer", tree=True)
            inbox.expire_leases()
            restart_triggerer(stage)
        totals = account(stage, inbox, ids, patience=PATIENCE_SECONDS)
        stage.until(lambda: {run["state"] for run in api.dag_runs(name)} == {"success"}, "the runs to end")
        results = [api.xcom(name, run["dag_run_id"], "work") for run in api.dag_runs(name)]

    duplicates = totals.pop("duplicates")
    assert totals == {"acknowledged": 20, "lost": 0, "hidden": 0, "stranded": 0}
    assert {len(result) for result in results} == {1}
    assert len(results) == len(api.asset_events(name)) == 20 + duplicates
