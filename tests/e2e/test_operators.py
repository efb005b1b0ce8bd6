"""What Airflow makes of an operator that is mapped."""

from __future__ import annotations

import pytest

from tests.e2e.stage import PATIENCE_SECONDS

pytestmark = pytest.mark.together


def test_mapped_guesses_have_a_link_each(stage):
    dag_id, api = "guess_of_a_task", stage.airflow.api
    stage.airflow.wait_for_dags([dag_id])
    run_id = api.trigger_dag(dag_id)
    api.wait_for_run(dag_id, run_id, PATIENCE_SECONDS)
    for index in (0, 1):
        path = f"dags/{dag_id}/dagRuns/{run_id}/taskInstances/work/links"
        links = api.request("GET", path, params={"map_index": index})["extra_links"]
        guess = api.xcom(dag_id, run_id, "work", map_index=index)
        assert links == {"Open workflow editor": guess["prefilled_url"]}
