"""Every message starts exactly one run."""

from __future__ import annotations

import json

import pytest

from tests.e2e.stage import Inbox


def test_a_hundred_messages_in_bursts_start_a_hundred_runs_that_succeed(stage):
    orders = Inbox.open(stage.emulator, "orders")
    stage.airflow.wait_for_dags(["order_listener", "handle_order"])
    ids = []
    for burst in (1, 29, 70):
        ids += orders.put(*[{"burst": burst, "number": number} for number in range(burst)])
        stage.until(orders.all_acknowledged, f"the burst of {burst} to be acknowledged")
    stage.wait_until_succeeded(orders, ids, "handle_order")
    assert orders.counts == {"available": 0, "leased": 0, "acked": 100, "quarantined": 0}
    assert orders.lease_counts == [1]
    states = {run["state"] for run in stage.airflow.api.dag_runs("order_listener")}
    assert "failed" not in states


def test_the_first_expression_that_holds_chooses_the_dag(stage):
    events = Inbox.open(stage.emulator, "events")
    stage.airflow.wait_for_dags(["event_router", "on_refund", "on_large_payment", "on_event"])
    (refund, large, small, other, empty) = events.put(
        {"type": "refund", "amount": 5000},
        {"type": "payment", "amount": 1000},
        {"type": "payment", "amount": 999},
        {"type": "greeting"},
        {},
    )
    stage.wait_until_succeeded(events, [refund], "on_refund")
    stage.wait_until_succeeded(events, [large], "on_large_payment")
    stage.wait_until_succeeded(events, [small, other], "on_event")
    assert events.messages[empty]["status"] == "leased", "it is for nobody: its lease runs out"


def test_messages_that_do_not_match_are_left_to_their_lease(stage, inbox):
    gold, iron, more_gold = inbox.put({"kind": "gold"}, {"kind": "iron"}, {"kind": "gold"})
    run = stage.start("listener_of_gold", inbox)
    assert run.succeeds()["started"] == {"count": 2, "ids": [gold, more_gold]}
    stage.check_one_run_each(inbox, [gold, more_gold])
    assert inbox.messages[iron]["status"] == "leased"
    assert inbox.messages[iron]["lease_count"] == 1


def test_a_deferred_listener_is_woken_by_a_message(stage, inbox):
    run = stage.start("listener", inbox)
    run.reaches("deferred")
    ids = inbox.put({"n": 1}, {"n": 2})
    assert run.succeeds() == {
        "inbox_id": inbox.id,
        "started": {"count": 2, "ids": ids},
        "existing": {"count": 0, "ids": []},
        "rejected": {"count": 0, "ids": []},
        "dead_lettered": {"count": 0, "ids": []},
    }
    stage.check_one_run_each(inbox, ids)
    assert inbox.lease_counts == [1]


@pytest.mark.parametrize("dag_id", ["poking_listener", "rescheduling_listener"])
def test_a_listener_that_is_not_deferrable_looks_again_and_again(stage, inbox, dag_id):
    run = stage.start(dag_id, inbox)
    stage.until(lambda: len(inbox.requests("lease")) > 2, "a third look")
    ids = inbox.put({"n": 1})
    assert run.succeeds()["started"]["count"] == 1
    stage.check_one_run_each(inbox, ids)


def test_a_dispatcher_drains_the_inbox_and_ends(stage, inbox):
    ids = inbox.put(*[{"n": n} for n in range(12)])
    run = stage.start("dispatcher_of_five", inbox)
    assert run.succeeds()["started"]["count"] == 12
    stage.check_one_run_each(inbox, ids)
    assert inbox.all_acknowledged()
    assert stage.start("dispatcher", inbox).succeeds()["started"]["count"] == 0


def test_what_a_run_gets_is_what_the_service_sent(stage, inbox):
    payload = {"text": "Grüße, 世界 \U0001f600", "number": 1.5, "none": None, "list": [{}, [], "{{ ds }}"]}
    (message_id,) = inbox.put(payload, attributes={"possible_duplicate_data": True})
    stage.start("listener", inbox, target="echo").succeeds()
    stage.wait_until_succeeded(inbox, [message_id], "echo")
    conf = json.loads(stage.airflow.api.xcom("echo", inbox.run_id_of(message_id), "echo"))
    assert conf["inbox_id"] == inbox.id
    assert conf["message"]["id"] == message_id
    assert conf["message"]["payload"] == payload
    assert conf["message"]["message_attributes"]["possible_duplicate_data"] is True
    assert set(conf["message"]) == {"id", "created_at", "payload", "message_attributes"}
