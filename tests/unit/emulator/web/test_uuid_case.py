"""A UUID has no case: the service finds the same inbox, lease and message by either spelling."""

from __future__ import annotations

from airflow_provider_workflow.emulator.server import EmulatorServer
from tests.unit.emulator.conftest import Api


def test_every_id_is_found_in_upper_case(emulator: EmulatorServer, api: Api) -> None:
    ids = emulator.put("orders", {"n": 1}, {"n": 2}, {"n": 3})
    inbox = emulator.open_inbox("orders").upper()
    path = f"/inboxes/{inbox}/messages"
    lease_id = api("POST", f"{path}/lease").json()["lease_id"].upper()

    released = api("POST", f"{path}/release", {"lease_id": lease_id, "message_ids": [ids[0].upper()]})
    acked = api("POST", f"{path}/ack", {"lease_id": lease_id, "message_ids": [ids[1].upper()]})
    assert [each["id"] for each in released.json()["results"]] == [ids[0]]
    assert [each["id"] for each in acked.json()["results"]] == [ids[1]]

    emulator.store.messages.set_attributes(inbox, ids[2].upper(), {"lease_count": 3})
    assert api.control("/leases/expire", inbox=inbox, lease_id=lease_id)["expired"] == 1
    assert api("GET", f"/_emulator/inboxes/{inbox}").json()["counts"]["available"] == 2
    assert api("GET", f"/inboxes/{inbox}").json()["id"] == inbox.lower()
    assert api("DELETE", f"/inboxes/{inbox}").status_code == 202
    assert api("GET", f"/inboxes/{inbox}").status_code == 404


def test_a_message_that_is_put_in_upper_case_keeps_its_spelling(emulator: EmulatorServer, api: Api) -> None:
    message_id = "0A0B0C0D-0000-4000-8000-00000000000F"
    emulator.put("orders", {}, {}, ids=[message_id, "order A"])
    path = f"/inboxes/{emulator.open_inbox('orders')}/messages"
    lease = api("POST", f"{path}/lease").json()
    assert [each["id"] for each in lease["results"]] == [message_id, "order A"]
    body = {"lease_id": lease["lease_id"], "message_ids": [message_id.lower()]}
    assert [each["id"] for each in api("POST", f"{path}/ack", body).json()["results"]] == [message_id]
    # An id that a test chose and that is no UUID has a case.
    assert api("POST", f"{path}/ack", {**body, "message_ids": ["order a"]}).status_code == 400


def test_names_of_inboxes_have_a_case(emulator: EmulatorServer) -> None:
    assert emulator.open_inbox("orders") != emulator.open_inbox("ORDERS")


def test_events_of_an_inbox_in_upper_case_arrive(emulator: EmulatorServer, api: Api) -> None:
    inbox = emulator.open_inbox("orders")
    with api("GET", f"/inboxes/{inbox.upper()}/events", stream=True) as stream:
        emulator.put("orders", {})
        assert next(stream.iter_lines()) == b'data: {"inbox_id": "%s", "count": 1}' % inbox.encode()
