"""Every fault of the service, at every call of a dispatch: what is acknowledged was done, nothing is lost."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_workflow.client.errors import WorkflowError
from airflow_provider_workflow.dispatch.run_errors import TargetError
from airflow_provider_workflow.emulator.rules.oauth import MARK
from tests.traces import told
from tests.unit.fakes import api_error
from tests.unit.workbench import INBOX, Workbench

# A failing acknowledgement is sent again after pauses.
pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("fake_clock")]

IDS = ("a", "b", "c")
A_WHILE = None
"""All requests, as long as the fault lasts."""

FAULTS: dict[str, dict[str, Any]] = {
    f"{title} {when}": {**fault, "when": when}
    for title, fault in {
        "dropped": {"kind": "drop"},
        "dropped, once": {"kind": "drop", "times": 2},
        "500": {"kind": "status", "status": 500},
        "500, once": {"kind": "status", "status": 500, "times": 1},
        "400 unauthenticated": {"kind": "status", "status": 400, "code": "unauthenticated"},
        "400 lease_expired": {"kind": "status", "status": 400, "code": "lease_expired"},
        "401": {"kind": "status", "status": 401, "text": ""},
        "404": {"kind": "status", "status": 404},
        "409": {"kind": "status", "status": 409},
        "429": {"kind": "status", "status": 429, "headers": {"Retry-After": "0"}},
        "a page": {"kind": "status", "status": 200, "text": "<html>not JSON</html>"},
        "an object of another kind": {"kind": "status", "status": 200, "json": {"hello": "world"}},
        "an empty lease": {"kind": "status", "status": 200, "json": {"lease_id": None, "results": []}},
        "a redirect": {"kind": "status", "status": 307, "headers": {"Location": "http://localhost/"}},
    }.items()
    for when in ("before", "after")
}
FAULTS |= {"half an answer": {"kind": "truncate"}, "messages twice": {"kind": "duplicate", "times": 1}}
OF_MESSAGES = (
    *("dropped after", "dropped, once after", "500 after", "500, once before", "half an answer"),
    *("400 unauthenticated before", "401 after", "400 lease_expired before", "400 lease_expired after"),
    *("404 before", "404 after", "409 after", "429 before", "a redirect after"),
    *("a page after", "an object of another kind after", "an empty lease after", "messages twice"),
)
"""
One for each way that a lease or an acknowledgement can go wrong for its caller. A fault "after" has let the
call have its effect; "before" tells less, and stands here where a service answers in this way only then.
"""
OF_OTHERS = ("dropped before", "500 before", "401 before", "an object of another kind before")
"""For calls that change nothing."""
OF_RELEASES = (
    *("dropped before", "dropped after", "500 after"),
    *("400 lease_expired before", "404 before", "a redirect before"),
)
CASES = [
    *((call, fault) for call in ("lease", "ack") for fault in OF_MESSAGES),
    *((call, fault) for call in ("token", "get_inbox") for fault in OF_OTHERS),
]


def attempted(bench: Workbench) -> list[Exception]:
    """One try of a task, and how it failed."""
    try:
        bench.dispatcher().drain()
    except (WorkflowError, TargetError) as error:
        return [error]
    return []


def acknowledged(bench: Workbench) -> set[str]:
    return {each["id"] for each in bench.service.summary(INBOX)["messages"] if each["status"] == "acked"}


@pytest.mark.parametrize(("call", "fault"), CASES)
def test_what_is_acknowledged_was_done_and_the_rest_is_done_later(
    call: str, fault: str, bench: Workbench
) -> None:
    bench.put(*IDS)
    bench.service.fault(operation=call, **{"times": A_WHILE, **FAULTS[fault]})
    errors = attempted(bench)
    assert not any(told(error, (MARK, bench.service.client_secret)) for error in errors)
    assert bench.service.count(call) > 0
    assert acknowledged(bench) <= set(bench.supervisor.started)

    bench.service.emulator.faults.clear()
    for _ in range(2):
        bench.service.store.clock.advance(301)
        assert attempted(bench) == []
        assert acknowledged(bench) <= set(bench.supervisor.started)
    assert acknowledged(bench) == set(bench.supervisor.started) == set(IDS)


@pytest.mark.parametrize("fault", OF_RELEASES)
def test_a_release_that_goes_wrong_loses_nothing(fault: str, bench: Workbench) -> None:
    bench.put(*IDS)
    bench.supervisor.refuse("b", api_error(403))
    bench.service.fault(operation="release", **{"times": A_WHILE, **FAULTS[fault]})
    assert [type(error) for error in attempted(bench)] == [TargetError]
    assert bench.service.count("release") > 0
    assert acknowledged(bench) == set(bench.supervisor.started) == {"a"}

    bench.service.emulator.faults.clear()
    bench.supervisor.faults.clear()
    bench.service.store.clock.advance(301)
    attempted(bench)
    assert acknowledged(bench) == set(bench.supervisor.started) == set(IDS)
