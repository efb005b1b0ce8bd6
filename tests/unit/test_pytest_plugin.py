"""What the pytest plugin gives to people who test their own DAGs."""

from __future__ import annotations

import logging
import re
from importlib.metadata import entry_points

import pytest

from airflow_provider_workflow.client.errors import ServerError
from airflow_provider_workflow.dispatch import quarantine
from airflow_provider_workflow.hooks import user_tokens
from airflow_provider_workflow.hooks.workflow import WorkflowHook
from airflow_provider_workflow.pytest_plugin import WorkflowEmulator, workflow_emulator

__all__ = ["workflow_emulator"]
pytest_plugins = ["pytester"]


def test_the_default_connection_leads_to_the_service(workflow_emulator: WorkflowEmulator) -> None:
    ids = workflow_emulator.put("orders", {"order": 1}, {"order": 2})

    lease = WorkflowHook().lease_messages("orders")

    assert [message["payload"] for message in lease["results"]] == [{"order": 1}, {"order": 2}]
    assert workflow_emulator.statuses("orders") == dict.fromkeys(ids, "leased")


def test_what_was_acknowledged_can_be_asserted(workflow_emulator: WorkflowEmulator) -> None:
    first, second = workflow_emulator.put("orders", 1, 2)
    lease_id = str(WorkflowHook().lease_messages("orders")["lease_id"])
    WorkflowHook().acknowledge_messages("orders", lease_id, [first])

    workflow_emulator.assert_acknowledged("orders", [first])
    missing = f"not acknowledged in 'orders': {{'{second}': 'leased'}}"
    with pytest.raises(AssertionError, match=re.escape(missing)):
        workflow_emulator.assert_acknowledged("orders", [first, second])
    with pytest.raises(AssertionError, match=re.escape(f"acknowledged in 'orders' too: ['{first}']")):
        workflow_emulator.assert_acknowledged("orders", [])


def test_a_lease_ends_when_the_clock_is_moved(workflow_emulator: WorkflowEmulator) -> None:
    (message_id,) = workflow_emulator.put("orders", 1)
    WorkflowHook().lease_messages("orders", lease_seconds=60)

    workflow_emulator.advance(61)

    assert workflow_emulator.statuses("orders") == {message_id: "available"}


def test_faults_are_met(workflow_emulator: WorkflowEmulator) -> None:
    workflow_emulator.open_inbox("orders")
    workflow_emulator.fault("status", "lease", status=503)

    with pytest.raises(ServerError):
        WorkflowHook().lease_messages("orders")
    assert WorkflowHook().lease_messages("orders")["results"] == []


@pytest.mark.parametrize("test", ["first", "second"])
def test_each_test_gets_the_alarm_for_a_quarantined_message(
    test: str,
    workflow_emulator: WorkflowEmulator,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(user_tokens, "read_variable", lambda name: None)
    monkeypatch.setattr(user_tokens, "write_variable", lambda name, value, description: None)
    workflow_emulator.server.put("orders", 1, ids=["poison"])
    for _ in range(5):
        WorkflowHook().lease_messages("orders", lease_seconds=60)
        workflow_emulator.advance(61)

    quarantine.check(WorkflowHook(), "orders")

    assert [each.levelno for each in caplog.records].count(logging.ERROR) == 1


def test_it_loads_where_it_is_asked_for_and_each_test_has_a_service_of_its_own(
    pytester: pytest.Pytester,
) -> None:
    pytester.makeconftest('pytest_plugins = ["airflow_provider_workflow.pytest_plugin"]')
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.parametrize("turn", [1, 2])
        def test_one_message(workflow_emulator, turn):
            workflow_emulator.put("orders", {"turn": turn})
            assert len(workflow_emulator.statuses("orders")) == 1
        """
    )
    pytester.runpytest_subprocess().assert_outcomes(passed=2)


def test_it_loads_nowhere_else() -> None:
    assert not [each for each in entry_points(group="pytest11") if "workflow" in each.value]
