"""
A process that renews a user's tokens again and again, started many times over by a test.

    python -m tests.unit.client.renewing <base URL> <file> <number> <renewals> <seed>

The file is a table of variables with what Airflow's have: the last write wins, and nothing compares
before it writes. Ends with one line of JSON: the refresh tokens that it sent, and how often it asked.
"""

from __future__ import annotations

import json
import random
import sqlite3
import sys
import time
from contextlib import closing
from typing import Any

from airflow_provider_workflow.client import api
from airflow_provider_workflow.client.client import WorkflowClient
from airflow_provider_workflow.client.settings import Settings
from airflow_provider_workflow.client.tokens import TokenCache, token_key
from airflow_provider_workflow.hooks import user_tokens

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
    """Stands in for Airflow's, over a file."""

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


if __name__ == "__main__":
    main(*sys.argv[1:])
