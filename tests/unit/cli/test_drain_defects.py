"""A defect of one message is never a defect of its lease: the others have their runs all the same."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from airflow_provider_workflow.dispatch.payloads import payload_of
from airflow_provider_workflow.dispatch.runs import run_id_of
from airflow_provider_workflow.emulator.server import EmulatorServer
from airflow_provider_workflow.hooks.workflow import WorkflowHook
from tests.unit.cli.conftest import Cli
from tests.unit.cli.database import Database
from tests.unit.cli.draining import DRAIN, handle, orders, states
from tests.unit.client.isolation import forget
from tests.unit.defective import DefectiveService

__all__ = ["handle", "orders"]

MARK = "MARK OF A DEFECT"
DEEP = b"[" * 100_000 + b"]" * 100_000
DEFECTS: dict[str, tuple[bytes, bytes, Any]] = {
    "not UTF-8": (MARK.encode(), b"\xff", {"name": "Andr\udcff"}),
    "Latin-1": (MARK.encode(), "é".encode("latin-1"), {"name": "Andr\udce9"}),
    "an unknown escape": (MARK.encode(), rb"\x41", r'{"name":"Andr\x41"}'),
    "too deep": (f'"Andr{MARK}"'.encode(), DEEP, f'{{"name":{DEEP.decode()}}}'),
    "no value": (f'"Andr{MARK}"'.encode(), b"", '{"name":}'),
}
IDS = [f"m-{number:02}" for number in range(21)]
BAD = IDS[10]


@pytest.fixture(params=DEFECTS)
def defect(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def defective(
    defect: str, connected: EmulatorServer, orders: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[EmulatorServer]:
    """A service with 21 messages, of which one has a defect."""
    payloads = [{"name": f"Andr{MARK}" if each == BAD else each} for each in IDS]
    connected.put("orders", *payloads, ids=IDS)
    found, put, _ = DEFECTS[defect]
    with DefectiveService(connected, {found: put}) as service:
        connection = {**connected.connection(), "host": service.url}
        monkeypatch.setenv("AIRFLOW_CONN_WORKFLOW_DEFAULT", json.dumps(connection))
        forget()
        yield connected


def test_a_hook_leases_the_others_and_the_text_of_the_bad_one(defect: str, defective: EmulatorServer) -> None:
    lease = WorkflowHook().lease_messages("orders", 100, 300)

    payloads = {message["id"]: message["payload"] for message in lease["results"]}
    assert [*payloads] == IDS
    assert payloads.pop(BAD) == DEFECTS[defect][2]
    assert payloads == {each: {"name": each} for each in IDS if each != BAD}


def test_each_message_has_its_run_in_one_drain(
    cli: Cli, defect: str, defective: EmulatorServer, handle: Database, orders: str
) -> None:
    shown = cli(*DRAIN, "-o", "json")

    assert shown.code == 0, shown.err
    assert shown.json["started"]["count"] == len(IDS)
    assert states(defective) == dict.fromkeys(IDS, "acked")
    runs = handle.runs("handle")
    payloads = {each: payload_of(runs[run_id_of(each, orders)]["message"]) for each in IDS}
    assert payloads.pop(BAD) == DEFECTS[defect][2]
    assert payloads == {each: {"name": each} for each in IDS if each != BAD}


ENTRIES = {"null": b"null", "a number": b"7", "a list": b"[]", "a word": b"undefined"}


@pytest.mark.parametrize("entry", ENTRIES)
def test_an_entry_that_is_no_message_is_counted_and_the_others_have_their_runs(
    entry: str,
    cli: Cli,
    connected: EmulatorServer,
    handle: Database,
    orders: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    connected.put("orders", {"n": 1}, {"n": 2}, {"n": 3}, ids=["a", "b", "c"])
    with DefectiveService(connected, {b'"results": [': b'"results": [%s, ' % ENTRIES[entry]}) as service:
        service.defects[b'"results":['] = b'"results":[%s,' % ENTRIES[entry]
        connection = {**connected.connection(), "host": service.url}
        monkeypatch.setenv("AIRFLOW_CONN_WORKFLOW_DEFAULT", json.dumps(connection))
        forget()
        shown = cli(*DRAIN, "--max-messages", "10", "-o", "json")

    assert set(handle.runs("handle")) == {run_id_of(each, orders) for each in "abc"}
    assert states(connected) == dict.fromkeys("abc", "acked")
    assert shown.json["started"]["count"] == 3
