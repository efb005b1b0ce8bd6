from __future__ import annotations

import signal

import pytest

from tests.e2e.conftest import DAGS_FOLDER
from tests.e2e.stage import PATIENCE_SECONDS
from tools.airflow_api import AirflowAPIError
from tools.local_airflow import COMPONENTS, LocalAirflow


def test_a_run_succeeds_and_its_xcom_and_log_can_be_read(airflow):
    airflow.wait_for_dags(["greet"])
    run_id = airflow.api.trigger_dag("greet", conf={"name": "inbox"})
    assert airflow.api.wait_for_run("greet", run_id, PATIENCE_SECONDS)["conf"] == {"name": "inbox"}
    assert airflow.api.xcom("greet", run_id, "greet") == "hello inbox"
    assert "attempt=1.log" in airflow.api.task_log("greet", run_id, "greet")
    assert run_id in [run["dag_run_id"] for run in airflow.api.dag_runs("greet")]


def test_a_cleared_task_runs_again(airflow):
    airflow.wait_for_dags(["greet"])
    run_id = airflow.api.trigger_dag("greet", run_id="to_be_cleared")
    airflow.api.wait_for_run("greet", run_id, PATIENCE_SECONDS)
    airflow.api.clear_task("greet", run_id, "greet")
    airflow.api.wait_until(
        lambda: [task["try_number"] for task in airflow.api.task_instances("greet", run_id)] == [2],
        timeout=PATIENCE_SECONDS,
        what="second try",
    )
    airflow.api.wait_for_run("greet", run_id, PATIENCE_SECONDS)


def test_a_run_of_a_paused_dag_waits_until_it_is_unpaused(airflow):
    airflow.wait_for_dags(["greet"])
    airflow.api.pause("greet")
    run_id = airflow.api.trigger_dag("greet")
    assert airflow.api.dag_run("greet", run_id)["state"] == "queued"
    airflow.api.unpause("greet")
    airflow.api.wait_for_run("greet", run_id, PATIENCE_SECONDS)


def test_a_wait_that_runs_out_shows_what_was_awaited_and_the_logs(airflow):
    with pytest.raises(TimeoutError, match=r"(?s)the moon: not within 0 s.*--- scheduler \(alive\)"):
        airflow.api.wait_until(lambda: False, timeout=0, what="the moon")
    with pytest.raises(TimeoutError, match="no DAG nowhere within 0 s"):
        airflow.wait_for_dags(["nowhere"], timeout=0)


def test_an_unknown_dag_is_an_error_with_its_status(airflow):
    with pytest.raises(AirflowAPIError) as caught:
        airflow.api.trigger_dag("nowhere")
    assert caught.value.status == 404


def test_a_killed_triggerer_is_awaited_until_the_new_one_has_registered(airflow):
    def jobs():
        return {job["id"] for job in airflow.api.jobs("TriggererJob")}

    before = jobs()
    airflow.kill("triggerer", signal.SIGKILL)
    assert not airflow.alive("triggerer")
    airflow.restart("triggerer")
    airflow.wait_until_healthy()
    assert airflow.alive("triggerer")
    assert len(jobs() - before) == 1


def test_stop_leaves_no_process_behind_not_even_orphans(tmp_path, monkeypatch):
    monkeypatch.setenv("AIRFLOW__CORE__DAGS_FOLDER", "/nowhere")
    with LocalAirflow(tmp_path, DAGS_FOLDER) as airflow:
        airflow.wait_for_dags(["greet"])
        airflow.kill("scheduler")
        assert airflow.pids("scheduler"), "its workers are orphans now"
    assert not [pid for name in COMPONENTS for pid in airflow.pids(name)]
