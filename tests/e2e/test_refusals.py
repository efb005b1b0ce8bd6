"""Messages that Airflow does not take, and target DAGs that cannot be started."""

from __future__ import annotations

import textwrap

import pytest


@pytest.mark.parametrize(
    ("target", "bad"),
    [("target", {"amount": 2**70}), ("picky", {"no": "amount"})],
    ids=["a value that no run can hold", "a conf that the target's params refuse"],
)
def test_one_refused_message_among_twenty_fails_the_task_and_starts_nineteen_runs(stage, inbox, target, bad):
    good = inbox.put(*[{"amount": n} for n in range(10)])
    (refused,) = inbox.put(bad)
    good += inbox.put(*[{"amount": n} for n in range(9)])
    run = stage.start("listener_with_retries", inbox, target=target)
    log = run.fails()
    assert run.task["try_number"] == 1, "another try would only cost the message another lease"
    assert f"1 messages were refused and not acknowledged: {refused}" in log
    stage.check_one_run_each(inbox, good, target)
    assert inbox.counts == {"available": 0, "leased": 1, "acked": 19, "quarantined": 0}
    assert inbox.messages[refused]["status"] == "leased", "neither acknowledged nor released"
    assert not inbox.requests("release")


def test_a_refused_message_is_only_logged_where_that_is_asked_for(stage, inbox):
    good = inbox.put(*[{"n": n} for n in range(19)])
    (refused,) = inbox.put({"n": 2**70})
    run = stage.start("listener_that_logs", inbox)
    result = run.succeeds()
    assert result["started"]["count"] == 19
    assert result["refused"] == {"count": 1, "ids": [refused]}
    assert f"message {refused} was refused: " in run.log()
    stage.check_one_run_each(inbox, good)
    assert inbox.messages[refused]["status"] == "leased"
    assert not inbox.requests("release")


def test_a_target_that_refuses_every_run_is_said_to_be_at_fault_before_all_are_tried(stage, inbox):
    inbox.put(*[{"no": "amount"}] * 30)
    log = stage.start("listener", inbox, target="picky").fails()
    assert "Airflow refused the first 10 runs and took none" in log
    assert "'amount' is a required property" in log, "Airflow's own reason"
    assert "On instance" not in log, "the payload stands behind it"
    assert inbox.counts == {"available": 21, "leased": 9, "acked": 0, "quarantined": 0}
    assert inbox.lease_counts == [1]


def test_a_target_that_is_missing_fails_the_task_before_anything_is_leased(stage, inbox):
    inbox.put(*[{"n": n} for n in range(3)])
    runs = [stage.start(dag_id, inbox, target="no_such_dag") for dag_id in ("listener", "dispatcher")]
    for run in runs:
        assert "The DAG 'no_such_dag' was not found" in run.fails()
    assert inbox.lease_counts == [0]


def test_a_target_that_is_broken_or_gone_fails_the_task_before_anything_is_leased(stage, inbox, dags_folder):
    """Either DAG worked once: Airflow knows it still, and would start runs of it that never end."""
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
    inbox.put(*[{"n": n} for n in range(3)])
    (dags_folder / "broken.py").write_text("from airflow.sdk import DAG\nraise RuntimeError('broken')\n")
    (dags_folder / "removed.py").unlink()
    api = stage.airflow.api
    try:
        stage.until(
            lambda: any("broken.py" in error["filename"] for error in api.import_errors()), "the import error"
        )
        stage.until(lambda: "removed" not in {dag["dag_id"] for dag in api.dags()}, "the DAG to be stale")
        runs = {name: stage.start("listener", inbox, target=name) for name in ("broken", "removed")}
        for name, run in runs.items():
            assert f"{name!r}" in run.fails()
            assert "no message is lost" in run.log().lower()
    finally:
        (dags_folder / "broken.py").unlink()
    assert inbox.lease_counts == [0]


def test_a_target_that_goes_missing_while_the_sensor_waits_costs_no_attempt_but_one(
    stage, inbox, dags_folder
):
    file = dags_folder / "fleeting.py"
    file.write_text('from airflow.sdk import DAG\ndag = DAG("fleeting", schedule=None)\n')
    stage.airflow.wait_for_dags(["fleeting"])
    run = stage.start("listener", inbox, target="fleeting")
    run.reaches("deferred")
    file.unlink()
    stage.until(lambda: "fleeting" not in {d["dag_id"] for d in stage.airflow.api.dags()}, "the DAG to go")
    inbox.put(*[{"n": n} for n in range(3)])
    assert "'fleeting'" in run.fails()
    assert inbox.lease_counts == [1]
    assert inbox.counts["available"] == 3, "they are released, for whoever can work on them"
