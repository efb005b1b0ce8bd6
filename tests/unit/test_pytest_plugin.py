"""What the pytest plugin gives to people who test their own DAGs."""

from __future__ import annotations

import logging
import re

import pytest

from airflow_provider_workflow.client.errors import ServerError
from airflow_provider_workflow.dispatch import quarantine
from airflow_provider_workflow.hooks import user_tokens
from airflow_provider_workflow.hooks.workflow import WorkflowHook
from airflow_provider_workflow.pytest_plugin import WorkflowEmulator, workflow_emulator

__all__ = ["workflow_emulator"]
pytest_plugins = ["pytester"]


def test_what_was_acknowledged_can_be_asserted(workflow_emulator: WorkflowEmulator) -> None:
    first, second = workflow_emulator.put("orders", 1, 2)
    lease_id = str(WorkflowHook().lease_messages("orders")["lease_id"])
    WorkflowHook().acknowledge_messages("orders", lease_id, [first])

    workflow_emulator.assert_acknowledged("orders", [first])
    missing = f"not acknowledged in 'orders': {{'{second}'}}"
    with pytest.raises(AssertionError, match=re.escape(missing)):
        workflow_emulator.assert_acknowledged("orders", [first, second])
    with pytest.raises(AssertionError, match=re.escape(f"acknowledged in 'orders' too: {{'{first}'}}")):
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
    monkeypatch.setattr(user_tokens, "write_variable", lambda name, value: None)
    workflow_emulator.server.put("orders", 1, ids=["poison"])
    for _ in range(5):
        WorkflowHook().lease_messages("orders", lease_seconds=60)
        workflow_emulator.advance(61)

    quarantine.check(WorkflowHook(), "orders")

    assert [each.levelno for each in caplog.records].count(logging.ERROR) == 1


PLUGIN = "airflow_provider_workflow.pytest_plugin"
ONE_MESSAGE = """
    import pytest

    @pytest.mark.parametrize("turn", [1, 2])
    def test_one_message(workflow_emulator, turn):
        workflow_emulator.put("orders", {"turn": turn})
        assert len(workflow_emulator.statuses("orders")) == 1
    """


def test_it_needs_no_configuration_and_each_test_has_a_service_of_its_own(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(ONE_MESSAGE)

    pytester.runpytest_subprocess().assert_outcomes(passed=2)


@pytest.mark.parametrize("arguments", [(), ("-p", PLUGIN)])
def test_a_conftest_file_may_name_it_as_before(pytester: pytest.Pytester, arguments: tuple[str, ...]) -> None:
    pytester.makeconftest(f'pytest_plugins = ["{PLUGIN}"]')
    pytester.makepyfile(ONE_MESSAGE)

    pytester.runpytest_subprocess(*arguments).assert_outcomes(passed=2)


def modules_of_a_session(pytester: pytest.Pytester, *arguments: str) -> set[str]:
    """All modules that are loaded at the end of a session whose test does not use the fixture."""
    pytester.makeconftest(
        """
        import pathlib, sys

        def pytest_unconfigure():
            pathlib.Path("modules").write_text(" ".join(sys.modules))
        """
    )
    pytester.makepyfile("def test_nothing(): pass")
    pytester.runpytest_subprocess(*arguments).assert_outcomes(passed=1)
    return set((pytester.path / "modules").read_text().split())


def test_a_session_that_does_not_use_it_loads_two_small_modules(pytester: pytest.Pytester) -> None:
    without = modules_of_a_session(pytester, "-p", f"no:{PLUGIN}")

    assert modules_of_a_session(pytester) - without == {"airflow_provider_workflow", PLUGIN}
