"""Messages that Airflow does not take, and target DAGs that cannot be started."""

from __future__ import annotations

import textwrap

import pytest


def test_one_refused_message_among_twenty_fails_the_task_and_starts_nineteen_runs(stage, inbox):
    good = inbox.put(*[{"amount": n} for n in range(10)])
    (refused,) = inbox.put({"no": "amount"})
    good += inbox.put(*[{"amount": n} for n in range(9)])
    run = stage.start("listener_with_retries", inbox, target="picky")
    log = run.fails()
    assert run.task["try_number"] == 1, "another try would only cost the message another lease"
    assert f"1 messages were rejected and not acknowledged: {refused}" in log
    stage.check_one_run_each(inbox, good, "picky")
    assert inbox.counts == {"available": 0, "leased": 1, "acked": 19, "quarantined": 0}
    assert inbox.messages[refused]["status"] == "leased", "neither acknowledged nor released"
    assert not inbox.requests("release")


def test_a_target_that_is_missing_fails_the_task_before_anything_is_leased(stage, inbox):
    inbox.put(*[{"n": n} for n in range(3)])
    runs = [stage.start(dag_id, inbox, target="no_such_dag") for dag_id in ("listener", "dispatcher")]
    for run in runs:
        assert "The DAG 'no_such_dag' was not found" in run.fails()
    assert inbox.lease_counts == [0]


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
