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
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_workflow.client import api
from airflow_provider_workflow.client.call import Call
from airflow_provider_workflow.client.client import WorkflowClient
from airflow_provider_workflow.client.settings import Settings
from airflow_provider_workflow.client.tokens import TokenCache, token_key
from airflow_provider_workflow.emulator.server import EmulatorServer
from airflow_provider_workflow.hooks import user_tokens
from tests.unit.client.stores import logged_in

pytestmark = pytest.mark.slow

PROCESSES = 4
RENEWALS = 25
LONGEST_SECONDS = 60
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
    return user_tokens.VariableStore(settings)


def main(base_url: str, path: str, number: str, seed: str) -> None:
    """Print one line of JSON in the end: the refresh tokens that were sent, in this order."""
    settings = settings_for(base_url)
    tokens = TokenCache()
    store = over(Variables(path, random.Random(f"{seed} {number}")), settings)
    spent: list[str] = []

    def note(call: Call[Any], *_: object) -> None:
        if call.name == "refresh_user_token":
            spent.append((call.form or {})["refresh_token"])

    with WorkflowClient(settings, tokens=tokens, store=store, observe=note) as client:
        client.send(api.list_inboxes())
        print("ready", flush=True)
        sys.stdin.readline()
        for _ in range(RENEWALS):
            renew(client, settings, tokens)
    print(json.dumps(spent))


def renew(client: WorkflowClient, settings: Settings, tokens: TokenCache) -> None:
    """Send a call as if the token had run out, or the service had refused it."""
    key = token_key(settings, settings.scope)
    before = tokens.usable(key)
    assert before is not None
    tokens.drop(key, before.value)
    client.send(api.list_inboxes())
    after = tokens.usable(key)
    assert after is not None
    assert after.value != before.value


def spent_by_processes(emulator: EmulatorServer, path: Path) -> list[list[str]]:
    """The refresh tokens that each of the processes sent, which all begin at once."""
    command = [sys.executable, "-m", __name__, emulator.base_url, str(path)]
    pipe = subprocess.PIPE
    with ExitStack() as running:
        processes = []
        for number in range(PROCESSES):
            process = subprocess.Popen([*command, str(number), "1"], stdin=pipe, stdout=pipe, text=True)
            running.callback(process.wait)
            running.callback(process.kill)
            processes.append(process)
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        outputs = [process.communicate(timeout=LONGEST_SECONDS)[0] for process in processes]
        assert [process.returncode for process in processes] == [0] * PROCESSES
    return [json.loads(output) for output in outputs]


def test_processes_that_renew_at_once_all_end_with_a_valid_token(
    emulator: EmulatorServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = settings_for(emulator.base_url)
    monkeypatch.setattr("airflow_provider_workflow.hooks.user_tokens.read_variable", None)
    monkeypatch.setattr("airflow_provider_workflow.hooks.user_tokens.write_variable", None)
    store = over(Variables(str(tmp_path / "variables")), settings)
    store.write(logged_in(emulator))
    spent = spent_by_processes(emulator, tmp_path / "variables")

    statuses = [request.status for request in emulator.requests if request.operation == "token"]
    sent = Counter(token for tokens in spent for token in tokens)
    # No process sends a refresh token twice; of several that send the same one, the service takes one.
    assert all(len(tokens) == len(set(tokens)) for tokens in spent)
    assert Counter(statuses) == {200: len(sent), 400: sent.total() - len(sent)}
    # They did meet, or this would prove nothing.
    assert sent.total() > len(sent) > RENEWALS

    # And what is stored in the end can be renewed once more.
    tokens = TokenCache()
    with WorkflowClient(settings, tokens=tokens, store=store) as client:
        client.send(api.list_inboxes())
        renew(client, settings, tokens)


if __name__ == "__main__":
    main(*sys.argv[1:])
