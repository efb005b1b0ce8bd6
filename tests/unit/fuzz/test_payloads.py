"""Any payload arrives as it was sent, and is never rendered; what Airflow itself changes and refuses."""

from __future__ import annotations

import itertools
import json
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import task
from airflow.sdk.execution_time import task_runner
from airflow.sdk.execution_time.comms import SetRenderedFields
from airflow.serialization import serialized_objects
from hypothesis import assume, example, given, reject
from hypothesis import strategies as st

from airflow_provider_workflow.client.tolerant_json import is_deeper
from airflow_provider_workflow.decorators import inbox_dag
from airflow_provider_workflow.dispatch.lease import HeldLease, lease_once
from airflow_provider_workflow.dispatch.payloads import payload_of, storable
from airflow_provider_workflow.dispatch.runs import RUN_ID_PREFIX
from tests.unit.client.isolation import forget
from tests.unit.dispatch.test_every_fault import acknowledged_ids
from tests.unit.fakes import Supervisor
from tests.unit.fuzz import journeys
from tests.unit.fuzz.budget import tries
from tests.unit.fuzz.payloads import ANY_PAYLOAD, ANY_TEXT, MARKS, TEMPLATES, same, too_much
from tests.unit.workbench import INBOX, Receipt, Workbench

DEEPEST = 147
"""Levels of a payload that Airflow stores as it is."""
_numbers = itertools.count()

Payloads = st.lists(ANY_PAYLOAD, min_size=1, max_size=4)


class AirflowSupervisor(Supervisor):
    """Starts runs with what is left of a ``conf`` after all that Airflow does to it."""

    def _start(self, message: Any) -> Any:
        if RUN_ID_PREFIX in message.run_id:
            message.conf = journeys.to_a_run(message)
        return super()._start(message)


@pytest.fixture
def airflow(bench: Workbench, monkeypatch: pytest.MonkeyPatch) -> Workbench:
    supervisor = AirflowSupervisor()
    bench.supervisor = supervisor
    monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", supervisor)
    return bench


def arrive(bench: Workbench, payloads: list[Any]) -> dict[str, Any]:
    """A new inbox with these payloads, by message id."""
    bench.service.store.inboxes.delete(bench.service.open_inbox(INBOX))
    bench.inbox_id = bench.service.open_inbox(INBOX)
    forget()
    bench.supervisor.runs.clear()
    payloads_by_id = {f"00000000-0000-4000-8000-{next(_numbers):012}": payload for payload in payloads}
    bench.service.put(INBOX, *payloads_by_id.values(), ids=list(payloads_by_id))
    return payloads_by_id


def is_as_sent(payload: Any, sent: Any) -> bool:
    """Whether a DAG got the payload that was sent: as it is, or as its text if it is too deep for Airflow."""
    if not is_deeper(sent, DEEPEST):
        return same(payload, sent)
    return isinstance(payload, str) and same(json.loads(payload), sent)


def check_dispatch(airflow: Workbench, payloads: list[Any]) -> None:
    payloads_by_id = arrive(airflow, payloads)
    dispatcher = airflow.dispatcher()
    dispatcher.drain()

    messages = {conf["message"]["id"]: conf["message"] for conf in airflow.supervisor.runs.values()}
    assert set(messages) == set(payloads_by_id) == acknowledged_ids(airflow)
    assert [
        message_id
        for message_id, payload in payloads_by_id.items()
        if not is_as_sent(payload_of(messages[message_id]), payload)
    ] == []
    as_text = {message_id for message_id, message in messages.items() if "payload_json" in message}
    assert as_text == {
        message_id
        for message_id, payload in payloads_by_id.items()
        if not is_deeper(payload, DEEPEST) and too_much(payload, DEEPEST)
    }
    assert dispatcher.counts.result["rejected"]["count"] == 0


def check_receipt(airflow: Workbench, payloads: list[Any]) -> None:
    payloads_by_id = arrive(airflow, payloads)
    receipt = Receipt(airflow)
    lease = lease_once(airflow.hook, INBOX, 100, 300)
    assert lease is not None
    first = receipt().take(lease)

    # What an earlier try received is what the next one finds in the store, and what an XCom brings.
    again = receipt().stored() if first else []
    pulled = journeys.through_xcom(first)
    for messages in (first, again, pulled):
        payloads_of_messages = {message["id"]: payload_of(message) for message in messages}
        assert set(payloads_of_messages) == set(payloads_by_id) == acknowledged_ids(airflow)
        assert [
            message_id
            for message_id, payload in payloads_by_id.items()
            if not is_as_sent(payloads_of_messages[message_id], payload)
        ] == []


@pytest.mark.parametrize("through", [check_dispatch, check_receipt])
@tries(120)
@given(payloads=Payloads)
@example(payloads=[{"value": text} for text in TEMPLATES])
@example(payloads=[{mark: "datetime", "__var": 1} for mark in MARKS])
def test_any_payload_reaches_its_run_or_is_returned_unchanged(
    airflow: Workbench, through: Any, payloads: list[Any]
) -> None:
    through(airflow, payloads)


@tries(200)
@given(payloads=Payloads, ids=st.data())
def test_a_lease_crosses_from_trigger_to_task_with_any_payload_in_it(
    payloads: list[Any], ids: st.DataObject
) -> None:
    assume(not is_deeper(payloads, 1 + DEEPEST))  # otherwise it is a text since the decoding of the lease
    messages = [
        {"id": f"{n}{ids.draw(ANY_TEXT)}", "payload": payload, "created_at": ids.draw(ANY_TEXT)}
        for n, payload in enumerate(payloads)
    ]
    lease = HeldLease.of(
        "i", {"lease_id": ids.draw(ANY_TEXT) or "l", "results": messages, "sent_at": 1e9}, 300, "c"
    )  # type: ignore[typeddict-item,arg-type]
    assert lease is not None
    try:
        text = lease.hand_off()
    except ValueError:  # too long
        reject()
    assert text.isascii()
    assert text.isprintable()

    crossed = journeys.through_event({"status": "leased", "inbox_name": "i", "lease": text})
    lease_of_task = HeldLease.from_hand_off(crossed["lease"])
    assert lease_of_task.lease_id == lease.lease_id
    payloads_of_deliveries = {
        delivery.id: delivery.message["payload"] for delivery in lease_of_task.deliveries
    }
    assert all(same(payloads_of_deliveries[message["id"]], message["payload"]) for message in messages)


LARGE_PAYLOAD = {"text": "x" * 10_000_000}


@task
def work(message: Any) -> None: ...


@inbox_dag("orders")
def handle_order(message: Any) -> None:
    work(message)


STORED = serialized_objects.DagSerialization.to_dict(handle_order)
SERIALIZED = serialized_objects.DagSerialization.from_dict(STORED)


def conf_of(payload: Any) -> dict[str, Any]:
    """The conf of the run of a message with this payload, as its tasks get it."""
    attributes = {"lease_count": 1, "error_message": None, "possible_duplicate_data": False}
    message = {"id": "a", "created_at": "2026", "payload": payload, "message_attributes": attributes}
    conf = {"inbox_id": "i", "message": storable(message)}
    return journeys.from_supervisor(journeys.through_api(journeys.through_database(conf)))  # type: ignore[no-any-return]


@tries(150)
@given(payload=ANY_PAYLOAD)
@example(payload=None)
@example(payload=LARGE_PAYLOAD)
@example(payload=list(TEMPLATES))
@example(payload=dict.fromkeys(MARKS, "datetime"))
def test_any_payload_passes_the_form_reaches_a_task_and_is_shown_among_its_arguments(payload: Any) -> None:
    conf, work_task = conf_of(payload), handle_order.get_task("work").prepare_for_execution()
    work_task.render_template_fields({"dag_run": SimpleNamespace(conf=conf), "params": {}})  # type: ignore[arg-type]

    assert same(work_task.op_args[0]["payload"], payload)  # type: ignore[attr-defined]
    fields = SetRenderedFields(rendered_fields=task_runner._serialize_rendered_fields(work_task))
    journeys.through_database(journeys.to_supervisor(fields.model_dump()))
    assert SERIALIZED.params.deep_merge(conf).validate()["message"] == conf["message"]


def test_what_is_no_message_is_rejected_by_the_form() -> None:
    for message in ("text", None, 1, []):
        with pytest.raises(Exception, match="Invalid input for param message"):
            SERIALIZED.params.deep_merge({"message": message}).validate()


def test_the_stored_dag_names_the_message_and_no_object_in_memory() -> None:
    assert '"op_args": ["message"]' in json.dumps(STORED)
    assert " object at 0x" not in json.dumps(STORED)
