"""What every request goes through."""

from __future__ import annotations

import pytest

from airflow_provider_workflow.emulator.server import EmulatorServer
from airflow_provider_workflow.emulator.web.app import OPERATIONS
from tests.unit.emulator.conftest import Api


def test_no_method_and_path_is_declared_twice() -> None:
    declared = [(operation.method, operation.path) for operation in OPERATIONS]
    assert len(declared) == len(set(declared))


def test_a_failure_of_the_emulator_itself_is_a_500_of_the_specification(
    emulator: EmulatorServer, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("broken on purpose")

    monkeypatch.setattr(emulator.store.inboxes, "page", fail)
    response = api("GET", "/inboxes")
    (error,) = response.json()["errors"]
    assert (response.status_code, error["status"], error["code"]) == (500, 500, "error")
    assert error["meta"]["full_details"] == {"message": "broken on purpose", "code": "RuntimeError"}


def test_unknown_paths_are_rate_limited_as_well(emulator: EmulatorServer, api: Api) -> None:
    emulator.store.configure(rate_limit=1)
    assert [api("GET", "/nowhere").status_code for _ in range(2)] == [404, 429]
