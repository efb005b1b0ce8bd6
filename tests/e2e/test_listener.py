"""Every message starts exactly one run: listeners in a real Airflow that nobody disturbs."""

from __future__ import annotations

import json
import textwrap
import threading

import pytest

from tests.e2e.stage import Inbox, Run
from tests.e2e.watching import NOTICE_LISTENER, dag_file, failed_run

pytestmark = pytest.mark.together
UNFINISHED = ("queued", "running")
MARK = "value-that-does-not-fit"


# The longest comes first, as they are begun in this order


def test_a_listener_whose_inbox_the_service_has_paused_fails_once_with_the_reason(stage, dags_folder, inbox):
    (message_id,) = inbox.put({"n": 1})
    inbox.force("paused", "authentication")
    name = inbox.name
    with dag_file(stage, dags_folder, name, NOTICE_LISTENER.format(name=name), name, "target"):
        run = Run(stage.airflow, name, stage.until(lambda: failed_run(stage, name), "an alarm"))
        assert f"Inbox '{name}' is paused (authentication)" in run.log()
        assert run.task["try_number"] == 1
    stage.check_one_run_each(inbox, [message_id])


# What starts runs


def test_each_message_of_inbox_dag_is_a_run_that_succeeds(stage):
    inbox = Inbox.open(stage.emulator, "decorated")
    stage.airflow.wait_for_dags(["decorated", "decorated_listener"])
    payloads_by_id = {}
    for burst in (1, 9, 2):
        payloads = [{"burst": burst, "number": number} for number in range(burst)]
        payloads_by_id |= dict(zip(inbox.put(*payloads), payloads, strict=True))
        stage.until(inbox.all_acknowledged, f"the burst of {burst} to be acknowledged")
    stage.wait_until_succeeded(inbox, list(payloads_by_id), "decorated")
    assert inbox.lease_counts == [1]
    for message_id, payload in payloads_by_id.items():
        read = json.loads(stage.airflow.api.xcom("decorated", inbox.run_id_of(message_id), "read_payload"))
        assert read == {"payload": payload, "as_text": False}
    runs = stage.airflow.api.dag_runs("decorated_listener")
    assert "failed" not in {run["state"] for run in runs}


def test_messages_with_the_same_key_start_one_run_and_an_invalid_one_is_a_dead_letter(stage):
    inbox, api = Inbox.open(stage.emulator, "decorated-once"), stage.airflow.api
    stage.airflow.wait_for_dags(["decorated_once", "decorated_once_listener", "dead_order"])
    for burst in ([("A", 1), ("A", 2), ("B", MARK)], [("C", 3), ("A", 4)]):
        inbox.put(*({"key": key, "number": number} for key, number in burst))
        stage.until(inbox.all_acknowledged, "the messages to be acknowledged")
    runs, (dead,) = api.dag_runs("decorated_once"), api.dag_runs("dead_order")
    numbers = [run["conf"]["message"]["payload"]["number"] for run in runs]
    assert len(numbers) == 2
    assert set(numbers) <= {1, 2, 3}
    assert dead["conf"]["reason"] == "invalid"
    assert dead["conf"]["cause"] == "its payload does not fit the schema: $.number: not a whole number"
    logs = stage.airflow.home.glob("logs/dag_id=decorated_once_listener/**/*.log")
    assert not any(MARK in log.read_text() for log in logs)


def test_a_deferred_listener_is_woken_by_messages_which_are_counted(stage, inbox, statsd):
    run = stage.start("listener", inbox).reaches("deferred")
    ids = inbox.put(*({"n": number} for number in range(25)))
    assert run.succeeds() == {
        "inbox_id": inbox.id,
        "started": {"count": 25, "ids": ids},
        **{key: {"count": 0, "ids": []} for key in ("existing", "repeated", "rejected", "dead_lettered")},
    }
    stage.check_one_run_each(inbox, ids)
    assert inbox.lease_counts == [1]
    # The first lease was made by the triggerer, all else by a worker.
    expected = {"leased": 25, "started": 25, "acknowledged": 25}

    def are_counted() -> bool:
        return {name: sum(numbers) for name, numbers in statsd.values(inbox.name, "c").items()} == expected

    stage.until(are_counted, f"{expected}; {statsd.values(inbox.name, 'c')}")
    (ages,) = statsd.values(inbox.name, "g").values()
    assert any(0 < age < 90 for age in ages)


@pytest.mark.parametrize("dag_id", ["poking_listener", "rescheduling_listener"])
def test_a_listener_that_is_not_deferrable_looks_again_and_again(stage, inbox, dag_id):
    run = stage.start(dag_id, inbox)
    stage.until(lambda: len(inbox.requests("lease")) > 2, "a third look")
    ids = inbox.put({"n": 1})
    assert run.succeeds()["started"]["count"] == 1
    stage.check_one_run_each(inbox, ids)


# How many runs of the target may be unfinished


def test_no_more_runs_are_started_than_may_be_unfinished_and_no_lease_is_wasted(stage, inbox, tmp_path):
    gate, end, numbers = tmp_path / "gate", threading.Event(), [0]

    def sample() -> None:
        while not end.wait(0.2):
            numbers.append(sum(run["state"] in UNFINISHED for run in stage.runs_of(inbox, "gated")))

    sampler = threading.Thread(target=sample)
    sampler.start()
    try:
        ids = inbox.put(*[{"n": n, "gate": str(gate)} for n in range(8)])
        run = stage.start("listener_with_room_for_three", inbox, target="gated")
        triggers = set()

        def was_deferred_twice() -> bool:
            task = run.task
            assert task["state"] != "failed", run.log()
            if trigger := task["trigger"]:
                triggers.add(trigger["created_date"])
            return len(triggers) > 1

        stage.until(was_deferred_twice, "two deferrals")
        assert inbox.counts == {"available": 5, "leased": 0, "acked": 3, "quarantined": 0}
        gate.touch()
        assert run.succeeds()["started"] == {"count": 8, "ids": ids}
    finally:
        gate.touch()
        end.set()
        sampler.join()
    assert max(numbers) == 3
    assert inbox.all_acknowledged()
    assert inbox.lease_counts == [1]
    stage.wait_until_succeeded(inbox, ids, "gated")


# What fails a listener


def test_a_deferred_sensor_that_times_out_fails_without_a_retry(stage, inbox):
    run = stage.start("impatient_listener", inbox)
    soft = stage.start("impatient_soft_listener", inbox)
    poking = stage.start("impatient_poking_listener", inbox)
    assert "AirflowSensorTimeout" in run.fails()
    assert run.task["try_number"] == 1
    soft.reaches("skipped")
    assert "AirflowSensorTimeout" in poking.fails()


def test_one_refused_message_among_twenty_fails_the_task_and_starts_nineteen_runs(stage, inbox):
    good = inbox.put(*[{"amount": n} for n in range(10)])
    (refused_id,) = inbox.put({"no": "amount"})
    good += inbox.put(*[{"amount": n} for n in range(9)])
    run = stage.start("listener_with_retries", inbox, target="picky")
    log = run.fails()
    assert run.task["try_number"] == 1, "another try would only cost the message another lease"
    assert f"1 message was rejected and not acknowledged: {refused_id}" in log
    stage.check_one_run_each(inbox, good, "picky")
    assert inbox.counts == {"available": 0, "leased": 1, "acked": 19, "quarantined": 0}
    assert inbox.messages[refused_id]["status"] == "leased", "neither acknowledged nor released"
    assert not inbox.requests("release")


@pytest.mark.since(3, 3, "a check that finds import errors and stale DAGs")
def test_a_target_that_is_broken_or_gone_costs_each_try_of_a_task_one_message(stage, inbox, dags_folder):
    """Either DAG worked once, so that Airflow knows it still. Its answer names the DAG: nothing is probed."""
    for name in ("broken", "removed"):
        (dags_folder / f"{name}.py").write_text(
            textwrap.dedent(f"""
                from airflow.providers.standard.operators.empty import EmptyOperator
                from airflow.sdk import DAG
                with DAG("{name}", schedule=None):
                    EmptyOperator(task_id="nothing")
            """)
        )
    stage.airflow.wait_for_dags(["broken", "removed"])
    inbox.put(*[{"n": n} for n in range(10)])
    (dags_folder / "broken.py").write_text("from airflow.sdk import DAG\nraise RuntimeError('broken')\n")
    (dags_folder / "removed.py").unlink()
    api = stage.airflow.api
    try:
        stage.until(
            lambda: any("broken.py" in error["filename"] for error in api.import_errors()), "the import error"
        )
        stage.until(lambda: "removed" not in {dag["dag_id"] for dag in api.dags()}, "the DAG to be stale")
        names = ("broken", "removed")
        runs = {name: stage.start("listener_with_retries", inbox, target=name) for name in names}
        for name, run in runs.items():
            assert f"{name!r}" in run.fails()
            assert "no message is lost" in run.log().lower()
            assert run.task["try_number"] == 4
    finally:
        (dags_folder / "broken.py").unlink()
    assert inbox.counts == {"available": 2, "leased": 8, "acked": 0, "quarantined": 0}
    assert inbox.lease_counts == [0, 1]
