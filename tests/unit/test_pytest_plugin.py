"""What the pytest plugin gives to people who test their own DAGs."""

from __future__ import annotations

import json
import logging
import os
import re
import shutil
import sys
from pathlib import Path

import pytest

from airflow_provider_workflow.client.errors import ServerError
from airflow_provider_workflow.dispatch import quarantine
from airflow_provider_workflow.hooks import user_tokens
from airflow_provider_workflow.hooks.workflow import WorkflowHook
from airflow_provider_workflow.pytest_airflow import CONFIGURED, PRIVATE, PrivateAirflow
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


@pytest.mark.parametrize("home", ["/nowhere", None])
def test_a_session_that_does_not_use_it_loads_three_small_modules(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, home: str | None
) -> None:
    choose_home(monkeypatch, home)
    without = modules_of_a_session(pytester, "-p", f"no:{PLUGIN}")

    added = modules_of_a_session(pytester) - without
    assert added == {"airflow_provider_workflow", PLUGIN, "airflow_provider_workflow.pytest_airflow"}


def choose_home(monkeypatch: pytest.MonkeyPatch, home: str | None) -> None:
    """Set ``AIRFLOW_HOME``, or remove all that configures an Airflow."""
    for name in (*CONFIGURED, *NAMES, PRIVATE):
        monkeypatch.delenv(name, raising=False)
    if home:
        monkeypatch.setenv("AIRFLOW_HOME", home)


NAMES = ("AIRFLOW_HOME", "AIRFLOW__CORE__LOAD_EXAMPLES", "AIRFLOW__CORE__DAGS_FOLDER")
SEEN = f"""
import json, os, pathlib

seen = {{name: os.environ.get(name) for name in {NAMES}}}
pathlib.Path("seen").write_text(json.dumps(seen))
"""
"""What Airflow would read if this file imported it."""
TESTS = """
def test_nothing(): pass
def test_of_messages(workflow_emulator): pass
"""
"""``-k nothing`` leaves out the one for which a database is created."""


def seen(pytester: pytest.Pytester, *arguments: str) -> dict[str, str | None]:
    """Environment variables that a file of a test project saw while it was imported."""
    pytester.runpytest_subprocess("-k", "nothing", *arguments).assert_outcomes(passed=1, deselected=1)
    found: dict[str, str | None] = json.loads((pytester.path / "seen").read_text())
    return found


def test_airflow_has_a_private_home_where_none_is_set_until_the_session_ends(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    choose_home(monkeypatch, None)
    pytester.mkdir("dags")
    pytester.makepyfile(test_plain=SEEN, test_that_uses_it=TESTS)
    found = seen(pytester)

    home = Path(str(found["AIRFLOW_HOME"]))
    assert home.name.startswith("airflow-home-")
    assert not home.exists()
    assert found["AIRFLOW__CORE__LOAD_EXAMPLES"] == "False"
    assert found["AIRFLOW__CORE__DAGS_FOLDER"] == str(pytester.path / "dags")


@pytest.mark.parametrize("argument", ["tests", "tests/unit", "tests/unit/test_it.py"])
def test_the_home_is_private_before_a_conftest_file_is_imported(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, argument: str
) -> None:
    choose_home(monkeypatch, None)
    pytester.makeconftest(SEEN + "# A fixture that needs workflow_emulator.")
    pytester.mkdir("tests")
    pytester.mkdir("tests/unit")
    (pytester.path / "tests/unit/test_it.py").write_text("def test_nothing(): pass\ndef test_b(): pass")

    assert "airflow-home-" in str(seen(pytester, argument)["AIRFLOW_HOME"])


def test_the_home_is_private_where_only_a_conftest_file_names_the_plugin(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    choose_home(monkeypatch, None)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makeconftest(f'pytest_plugins = ["{PLUGIN}"]')
    pytester.makepyfile(SEEN + TESTS)

    assert "airflow-home-" in str(seen(pytester)["AIRFLOW_HOME"])


def test_each_process_of_a_session_has_a_home_of_its_own(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    choose_home(monkeypatch, None)
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)  # of the session that runs this test
    pytester.makeconftest(
        """
        import os, pathlib
        name = os.environ.get("PYTEST_XDIST_WORKER", "main")
        pathlib.Path(f"{name}.home").write_text(os.environ["AIRFLOW_HOME"])
        """
    )
    pytester.makepyfile(TESTS)
    pytester.runpytest_subprocess("-k", "nothing", "-n", "2").assert_outcomes(passed=1)

    homes = {path.stem: path.read_text() for path in pytester.path.glob("*.home")}
    assert set(homes) == {"main", "gw0", "gw1"}
    assert len(set(homes.values())) == 3
    assert not [home for home in homes.values() if Path(home).exists()]


def test_what_the_user_has_set_is_kept(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    pytester.makepyfile(SEEN + TESTS)
    choose_home(monkeypatch, "/nowhere")
    assert seen(pytester) == {**dict.fromkeys(NAMES), "AIRFLOW_HOME": "/nowhere"}

    choose_home(monkeypatch, None)
    monkeypatch.setenv("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", "sqlite://")
    assert seen(pytester) == dict.fromkeys(NAMES)


def test_a_session_that_does_not_name_the_fixture_is_left_alone(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    choose_home(monkeypatch, None)
    pytester.makepyfile(SEEN + "def test_nothing(): pass\ndef test_else(): pass")
    # pytest looks for tests in neither of them.
    for folder in (".tox", "environment"):
        pytester.mkdir(folder)
        (pytester.path / folder / "test_other.py").write_text(TESTS)
    (pytester.path / "environment" / "pyvenv.cfg").touch()

    assert seen(pytester) == dict.fromkeys(NAMES)


def test_a_home_that_would_come_too_late_is_reported(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    choose_home(monkeypatch, None)
    pytester.makepyfile(
        early="import airflow",
        test_it="def test_of_messages(workflow_emulator): pass",
    )
    monkeypatch.setenv("PYTHONPATH", str(pytester.path), prepend=os.pathsep)
    result = pytester.runpytest_subprocess("-p", "early")

    result.assert_outcomes(passed=1, warnings=1)
    result.stdout.fnmatch_lines(["*The tests use the Airflow in ~/airflow: *"])


def test_what_keeps_a_private_airflow_from_having_tables_is_in_the_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    choose_home(monkeypatch, None)
    before, airflow = dict(os.environ), PrivateAirflow(tmp_path)
    # It knows no option -m.
    monkeypatch.setattr(sys, "executable", shutil.which("cat"))

    with pytest.raises(RuntimeError, match=r"^airflow db migrate failed .*:\n.*m"):
        airflow.create_tables()
    airflow.remove()
    assert dict(os.environ) == before
    assert not airflow.home.exists()
