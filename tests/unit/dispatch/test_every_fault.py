"""Every fault of the service, at every call of a dispatch: what is acknowledged was done, nothing is lost."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_workflow.client.errors import WorkflowError
from airflow_provider_workflow.dispatch.run_errors import TargetError
from airflow_provider_workflow.emulator.rules.oauth import MARK
from tests.traces import secrets_in
from tests.unit.fakes import api_error
from tests.unit.workbench import INBOX, Workbench

# A failing acknowledgement is sent again after pauses.
pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("fake_clock")]

IDS = ("a", "b", "c")
FAULTS: dict[str, dict[str, Any]] = {
    "dropped": {"kind": "drop"},
    "dropped, twice": {"kind": "drop", "times": 2},
    "500": {"status": 500},
    "500 before, once": {"status": 500, "when": "before", "times": 1},
    "401": {"status": 401, "text": ""},
    "400 unauthenticated before": {"status": 400, "code": "unauthenticated", "when": "before"},
    "400 lease_expired": {"status": 400, "code": "lease_expired"},
    "400 lease_expired before": {"status": 400, "code": "lease_expired", "when": "before"},
    "404": {"status": 404},
    "404 before": {"status": 404, "when": "before"},
    "409": {"status": 409},
    "429 before": {"status": 429, "headers": {"Retry-After": "0"}, "when": "before"},
    "an object of another kind": {"status": 200, "json": {"hello": "world"}},
    "an empty lease": {"status": 200, "json": {"lease_id": None, "results": []}},
    "a redirect": {"status": 307, "headers": {"Location": "http://localhost/"}},
    "messages twice": {"kind": "duplicate", "times": 1, "when": "before"},
}
"""
One for each way that a call can go wrong for its caller; what lasts, lasts as long as the fault. The client's
matrix has every form of it. A call had its effect, unless its fault came "before" that: this tells less, and
stands here where a service answers in this way only then.
"""
CASES = [
    *((call, fault) for call in ("lease", "ack") for fault in FAULTS),
    *((call, fault) for call in ("token", "list_inboxes") for fault in ("dropped", "500", "401")),
    *(("release", fault) for fault in ("dropped", "500", "400 lease_expired before")),
]


def errors_of_tries(bench: Workbench) -> list[Exception]:
    """One try of a task, and how it failed."""
    try:
        bench.dispatcher().drain()
    except (WorkflowError, TargetError) as error:
        return [error]
    return []


def acknowledged_ids(bench: Workbench) -> set[str]:
    return {
        message["id"] for message in bench.service.summary(INBOX)["messages"] if message["status"] == "acked"
    }


@pytest.mark.parametrize(("call", "fault"), CASES)
def test_what_is_acknowledged_was_done_and_the_rest_is_done_later(
    call: str, fault: str, bench: Workbench
) -> None:
    bench.put(*IDS)
    if call == "release":
        bench.supervisor.refuse("b", api_error(403))
    fault_of_call = {"kind": "status", "when": "after", "times": None, **FAULTS[fault]}
    bench.service.fault(operation=call, **fault_of_call)
    errors = errors_of_tries(bench)
    assert not any(secrets_in(error, (MARK, bench.service.client_secret)) for error in errors)
    assert bench.service.count(call) > 0
    assert acknowledged_ids(bench) <= set(bench.supervisor.started)
    if call == "release":
        assert [type(error) for error in errors] == [TargetError]
        assert acknowledged_ids(bench) == set(bench.supervisor.started) == {"a"}

    bench.service.emulator.faults.clear()
    bench.supervisor.faults.clear()
    for _ in range(2):
        bench.service.store.clock.advance(301)
        assert errors_of_tries(bench) == []
        assert acknowledged_ids(bench) <= set(bench.supervisor.started)
    assert acknowledged_ids(bench) == set(bench.supervisor.started) == set(IDS)
