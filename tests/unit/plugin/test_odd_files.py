"""A file that a connection names cannot stop the page, nor fill the memory of the API server."""

from __future__ import annotations

from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from airflow_provider_workflow.emulator.server import EmulatorServer
from tests.unit import odd_files
from tests.unit.plugin.conftest import API, error_of
from tests.unit.plugin.test_service import connect


@pytest.mark.parametrize("kind", odd_files.KINDS)
def test_an_odd_file_in_a_connection_is_one_clear_answer(
    op: TestClient, connected: EmulatorServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    with odd_files.made(kind, tmp_path) as path:
        connect(monkeypatch, connected, verify=path)
        answers = [op.get(f"{API}/inboxes/{place}/summary") for place in range(6)]
        answers.append(op.get(f"{API}/inboxes"))
    assert {(answer.status_code, error_of(answer)) for answer in answers} == {(502, "wrong_credentials")}
    assert all(odd_files.KINDS[kind] in answer.json()["error"]["title"] for answer in answers)
    connect(monkeypatch, connected)
    assert op.get(f"{API}/inboxes").status_code == 200


@pytest.mark.parametrize("kind", odd_files.KINDS)
def test_so_is_one_that_the_environment_names(
    op: TestClient, connected: EmulatorServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    with odd_files.made(kind, tmp_path) as path:
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", path)
        answer = op.get(f"{API}/inboxes")
    assert (answer.status_code, error_of(answer)) == (502, "wrong_credentials")
    assert odd_files.KINDS[kind] in answer.json()["error"]["title"]
