"""The conf that a listener gave to a run is what the next DAG is tested with."""

import json
import logging

from airflow.models import DagRun
from inbox_dead_letters import dead_payment, handle_payment, payment_listener


def started(dag_id, message_id):
    """The run of a DAG for a message."""
    (run,) = [each for each in DagRun.find(dag_id=dag_id) if message_id in each.run_id]
    return run


def test_a_payment_starts_a_run_and_a_message_without_amount_a_dead_letter(workflow_emulator):
    payment, other = workflow_emulator.put("payments", {"amount": 20}, {"total": 20})

    run = payment_listener().test()

    assert run.state == "success"
    assert started("handle_payment", payment).conf["message"]["payload"] == {"amount": 20}
    assert started("dead_payment", other).conf["reason"] == "unmatched"
    workflow_emulator.assert_acknowledged("payments", [payment, other])


def test_a_dead_letter_is_stored_reported_and_replayed(workflow_emulator, caplog, tmp_path):
    (message_id,) = workflow_emulator.put("payments", {"total": 20})
    payment_listener().test()
    # As if the target had been broken: the DAG replays no message that no route takes.
    letter = {**(started("dead_payment", message_id).conf or {}), "reason": "target"}

    run = dead_payment().test(run_conf={**letter, "folder": str(tmp_path)})

    assert run.state == "success"
    (stored,) = tmp_path.iterdir()
    assert json.loads(stored.read_text())["payload"] == {"total": 20}
    assert f"Dead letter {message_id} (target)" in caplog.text
    assert started("handle_payment", message_id).conf["message"]["payload"] == {"total": 20}


def test_a_rejected_message_is_not_replayed(workflow_emulator, tmp_path):
    letter = {"message_id": "a", "reason": "rejected", "cause": "too large", "message_json": "{}"}

    run = dead_payment().test(run_conf={**letter, "folder": str(tmp_path)})

    assert run.get_task_instance("replay").state == "skipped"
    assert run.get_task_instance("drop").state == "success"


def test_a_payment_is_handled(workflow_emulator, caplog):
    caplog.set_level(logging.INFO)

    run = handle_payment().test(run_conf={"message": {"id": "a", "payload": {"amount": 20}}})

    assert run.state == "success"
    assert "Payment: {'amount': 20}" in caplog.text
