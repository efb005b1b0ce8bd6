"""The DAGs of ``@inbox_dag`` (``dags/decorated.py``): started by messages, and by hand."""

from __future__ import annotations

import json

import pytest

from tests.e2e.stage import PATIENCE_SECONDS, Inbox


@pytest.mark.parametrize("listener", ["notice", "sensor"])
def test_each_message_is_a_run_that_succeeds(stage, listener):
    inbox, dag_id = Inbox.open(stage.emulator, f"decorated-{listener}"), f"decorated_by_{listener}"
    stage.airflow.wait_for_dags([dag_id, f"{dag_id}_listener"])
    sent = {}
    for burst in (1, 9, 2):
        payloads = [{"burst": burst, "number": number} for number in range(burst)]
        sent |= dict(zip(inbox.put(*payloads), payloads, strict=True))
        stage.until(inbox.all_acknowledged, f"the burst of {burst} to be acknowledged")
    stage.wait_until_succeeded(inbox, list(sent), dag_id)
    assert inbox.lease_counts == [1]
    for message_id, payload in sent.items():
        read = json.loads(stage.airflow.api.xcom(dag_id, inbox.run_id_of(message_id), "read_payload"))
        assert read == {"payload": payload, "as_text": False}
    states = {run["state"] for run in stage.airflow.api.dag_runs(f"{dag_id}_listener")}
    assert "failed" not in states


@pytest.mark.parametrize(
    ("conf", "payload"),
    [({}, {"example": True}), ({"message": {"id": "by-hand", "payload": [7]}}, [7])],
)
def test_a_run_by_hand_has_the_message_of_the_form_or_the_example(stage, conf, payload):
    stage.airflow.wait_for_dags(["decorated_by_notice"])
    run_id = stage.airflow.api.trigger_dag("decorated_by_notice", conf)
    stage.airflow.api.wait_for_run("decorated_by_notice", run_id, PATIENCE_SECONDS)
    read = json.loads(stage.airflow.api.xcom("decorated_by_notice", run_id, "read_payload"))
    assert read["payload"] == payload
