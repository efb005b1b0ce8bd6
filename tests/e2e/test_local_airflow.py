"""What the other tests take for granted: waits that say why they failed, and an Airflow that ends."""

from __future__ import annotations

import signal

import pytest

from tests.e2e.conftest import DAGS_FOLDER
from tools.local_airflow import COMPONENTS, LocalAirflow

pytestmark = pytest.mark.nightly


def test_a_local_airflow_says_what_it_waits_for_and_leaves_no_process_behind(tmp_path, monkeypatch):
    monkeypatch.setenv("AIRFLOW__CORE__DAGS_FOLDER", "/nowhere")

    def jobs() -> set[int]:
        return {job["id"] for job in airflow.api.jobs("TriggererJob")}

    with LocalAirflow(tmp_path, DAGS_FOLDER) as airflow:
        airflow.wait_for_dags(["greet"])
        with pytest.raises(TimeoutError, match=r"(?s)the moon: not within 0 s.*--- scheduler \(alive\)"):
            airflow.api.wait_until(lambda: False, timeout=0, what="the moon")
        with pytest.raises(TimeoutError, match="no DAG nowhere within 0 s"):
            airflow.wait_for_dags(["nowhere"], timeout=0)

        before = jobs()
        airflow.kill("triggerer", signal.SIGKILL)
        assert not airflow.alive("triggerer")
        airflow.restart("triggerer")
        airflow.wait_until_healthy()
        assert len(jobs() - before) == 1, "the new triggerer has registered"

        airflow.kill("scheduler")
        assert airflow.pids("scheduler"), "its workers are orphans now"
    assert not [pid for name in COMPONENTS for pid in airflow.pids(name)]
