"""
Many processes, one user, refresh tokens that are used up: nobody is left without a token.

Each process is this module, which renews the user's tokens again and again. Their store is a file with what
Airflow's variables have: the last write wins, and nothing compares before it writes.
"""

from __future__ import annotations

import json
import random
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_workflow.client import api
from airflow_provider_workflow.client.client import WorkflowClient
from airflow_provider_workflow.client.settings import Settings
from airflow_provider_workflow.client.tokens import TokenCache, token_key
from airflow_provider_workflow.emulator.server import EmulatorServer
from airflow_provider_workflow.hooks import user_tokens
from tests.unit.client.stores import logged_in

LONGEST_DELAY_SECONDS = 0.002
"""Before and after whatever touches the store, so that others come between."""


def settings_for(base_url: str) -> Settings:
    return Settings(
        base_url=base_url,
        client_id="demo-client",
        client_secret="demo-secret",
        token_url=f"{base_url}/oauth/token",
        verify=False,
        grant="refresh_token",
        connection_id="shared",
    )


class Variables:
    """Stands in for Airflow's, over a file; others come between at ``chance``."""

    def __init__(self, path: str, chance: random.Random | None = None) -> None:
        self.path = path
        self.chance = chance

    def get(self, name: str) -> str | None:
        self._delay()
        with closing(sqlite3.connect(self.path, timeout=30)) as database:
            row = database.execute("SELECT value FROM variable WHERE name = ?", (name,)).fetchone()
        self._delay()
        return row[0] if row else None

    def set(self, name: str, value: str) -> None:
        self._delay()
        with closing(sqlite3.connect(self.path, timeout=30)) as database, database:
            database.execute("CREATE TABLE IF NOT EXISTS variable (name TEXT PRIMARY KEY, value TEXT)")
            database.execute("INSERT OR REPLACE INTO variable VALUES (?, ?)", (name, value))
        self._delay()

    def _delay(self) -> None:
        if self.chance is not None:
            time.sleep(self.chance.uniform(0, LONGEST_DELAY_SECONDS))


def over(variables: Variables, settings: Settings) -> user_tokens.VariableStore:
    """The real store, over these variables instead of Airflow's."""
    user_tokens.read_variable = variables.get
    user_tokens.write_variable = variables.set
    return user_tokens.VariableStore(settings, lambda _: None)


class Counting(WorkflowClient):
    """A client that notes which refresh tokens it sends, in which order."""

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        self.spent: list[str] = []

    def send(self, call: Any) -> Any:
        if call.name == "refresh_user_token":
            self.spent.append(call.form["refresh_token"])
        return super().send(call)


def main(base_url: str, path: str, number: str, renewals: str, seed: str) -> None:
    """Print one line of JSON in the end: the refresh tokens that were sent, and how often one was renewed."""
    chance = random.Random(f"{seed} {number}")
    settings = settings_for(base_url)
    tokens = TokenCache()
    key = token_key(settings, settings.scope)
    store = over(Variables(path, chance), settings)
    renewed = 0
    with Counting(settings, tokens=tokens, store=store) as client:
        client.send(api.list_inboxes())
        print("ready", flush=True)
        sys.stdin.readline()
        while renewed < int(renewals):
            held = tokens.usable(key)
            assert held is not None
            tokens.drop(key, held.value)  # as if it had run out, or the service had refused it
            client.send(api.list_inboxes())
            after = tokens.usable(key)
            assert after is not None
            assert after.value != held.value
            renewed += 1
        client.send(api.list_inboxes())
    print(json.dumps({"renewed": renewed, "spent": client.spent}))


pytestmark = pytest.mark.slow

PROCESSES = 4
RENEWALS = 25
LONGEST_SECONDS = 60


def started(emulator: EmulatorServer, path: Path, seed: int) -> list[subprocess.Popen[str]]:
    """The processes, all of them ready to go."""
    command = [sys.executable, "-m", __name__, emulator.base_url, str(path)]
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


if __name__ == "__main__":
    main(*sys.argv[1:])
