"""Many processes, one user, refresh tokens that are used up: nobody is left without a token."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_workflow.client import api
from airflow_provider_workflow.client.client import WorkflowClient
from airflow_provider_workflow.client.tokens import TokenCache, token_key
from airflow_provider_workflow.emulator.server import EmulatorServer
from tests.unit.client.renewing import Variables, over, settings_for
from tests.unit.client.stores import logged_in

pytestmark = pytest.mark.slow

PROCESSES = 4
RENEWALS = 25
LONGEST_SECONDS = 60


def started(emulator: EmulatorServer, path: Path, seed: int) -> list[subprocess.Popen[str]]:
    """The processes, all of them ready to go."""
    command = [sys.executable, "-m", "tests.unit.client.renewing", emulator.base_url, str(path)]
    processes = [
        subprocess.Popen(
            [*command, str(number), str(RENEWALS), str(seed)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(PROCESSES)
    ]
    for each in processes:
        assert each.stdout is not None
        assert each.stdout.readline() == "ready\n"
    return processes


def finished(processes: list[subprocess.Popen[str]]) -> list[dict[str, Any]]:
    """What each of them reports."""
    for each in processes:
        assert each.stdin is not None
        each.stdin.write("go\n")
        each.stdin.flush()
    reports = []
    for each in processes:
        output, _ = each.communicate(timeout=LONGEST_SECONDS)
        assert each.returncode == 0
        reports.append(json.loads(output.splitlines()[-1]))
    return reports


@pytest.mark.parametrize("seed", [1, 2])
def test_processes_that_renew_at_once_all_end_with_a_valid_token(
    seed: int, emulator: EmulatorServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = settings_for(emulator.base_url)
    monkeypatch.setattr("airflow_provider_workflow.hooks.user_tokens.read_variable", None)
    monkeypatch.setattr("airflow_provider_workflow.hooks.user_tokens.write_variable", None)
    store = over(Variables(str(tmp_path / "variables")), settings)
    store.write(logged_in(emulator))
    processes = started(emulator, tmp_path / "variables", seed)
    try:
        reports = finished(processes)
    finally:
        for each in processes:
            each.kill()
            each.wait()
    assert [each["renewed"] for each in reports] == [RENEWALS] * PROCESSES

    asked = [each for each in emulator.requests if each.operation == "token"]
    sent = Counter(token for each in reports for token in each["spent"])
    assert len(asked) == sent.total()
    # No process sends a refresh token twice; of several that send the same one, the service takes one.
    assert all(len(each["spent"]) == len(set(each["spent"])) for each in reports)
    assert sum(each.status == 200 for each in asked) == len(sent)
    assert sum(each.status == 400 for each in asked) == sent.total() - len(sent)
    # They did meet, or this would prove nothing.
    assert sent.total() > len(sent) > RENEWALS

    # And what is stored in the end can be renewed once more.
    tokens = TokenCache()
    with WorkflowClient(settings, tokens=tokens, store=store) as client:
        client.send(api.list_inboxes())
        key = token_key(settings, settings.scope)
        held = tokens.usable(key)
        assert held is not None
        tokens.drop(key, held.value)
        client.send(api.list_inboxes())
