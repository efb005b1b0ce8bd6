"""@inbox_dag returns the DAG of the function. Its listener has no name in the file: a DagBag finds it."""

import logging

import inbox_dag
from airflow.models import DagBag, DagRun


def test_a_new_user_is_welcomed(workflow_emulator, caplog):
    caplog.set_level(logging.INFO)

    run = inbox_dag.welcome.test(run_conf={"message": {"id": "a", "payload": {"name": "Ada"}}})

    assert run.state == "success"
    assert "Welcome, Ada" in caplog.text


def test_a_signup_starts_one_run(workflow_emulator):
    (signup,) = workflow_emulator.put("signups", {"name": "Ada"})

    run = DagBag(inbox_dag.__file__).dags["welcome_listener"].test()

    assert run.state == "success"
    (conf,) = [each.conf or {} for each in DagRun.find(dag_id="welcome") if signup in each.run_id]
    assert conf["message"]["payload"] == {"name": "Ada"}
    workflow_emulator.assert_acknowledged("signups", [signup])
