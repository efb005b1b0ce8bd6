"""Every place where an Airflow may have written something down, and what it holds."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from cryptography.fernet import Fernet, InvalidToken

from tools.airflow_api import PAGE_SIZE, AirflowAPI, Json

Place = tuple[str, bytes]
"""What it is called, and all or one part of what it holds."""

LISTED = {
    "assets": "assets",
    "assets/events": "asset_events",
    "connections": "connections",
    "dags": "dags",
    "dags/~/dagRuns": "dag_runs",
    "dags/~/dagRuns/~/taskInstances": "task_instances",
    "eventLogs": "event_logs",
    "importErrors": "import_errors",
    "variables": "variables",
}
"""What the API lists, by its path; task instances with their rendered fields and triggers."""


def files(home: Path) -> Iterator[Place]:
    """The files of a home: logs, the database, and whatever else lies there."""
    for path in home.rglob("*"):
        if path.is_file():
            yield f"file {path.relative_to(home)}", path.read_bytes()


def rows(home: Path) -> Iterator[Place]:
    """The values of every table; in the database's file itself a long one is cut into pages."""
    with closing(sqlite3.connect(f"file:{home}/airflow.db?mode=ro", uri=True)) as database:
        database.text_factory = bytes
        tables = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        for table in (name.decode() for (name,) in tables):
            cursor = database.execute(f'SELECT * FROM "{table}"')
            columns = [column[0] for column in cursor.description]
            for row in cursor:
                for column, value in zip(columns, row, strict=True):
                    if isinstance(value, bytes):
                        yield f"{table}.{column}", value


def decrypted(home: Path) -> Iterator[Place]:
    """What Airflow has encrypted in its database, in clear."""
    fernet = Fernet(json.loads((home / "secrets.json").read_text())["AIRFLOW__CORE__FERNET_KEY"])
    for place, value in rows(home):
        with suppress(InvalidToken):
            yield f"decrypted {place}", fernet.decrypt(value)


def listed(api: AirflowAPI) -> Iterator[Place]:
    """What the API, and so the page, shows in lists."""
    for path, key in LISTED.items():
        for each in _pages(api, path, key):
            yield f"API {path}", json.dumps(each).encode()


def of_tasks(api: AirflowAPI) -> Iterator[Place]:
    """The logs of every try of every task, and its XComs, as the API shows them."""
    for task in _pages(api, "dags/~/dagRuns/~/taskInstances", "task_instances"):
        run = f"dags/{task['dag_id']}/dagRuns/{task['dag_run_id']}"
        path = f"{run}/taskInstances/{task['task_id']}"
        query = {"map_index": task["map_index"], "full_content": True}
        for number in range(1, task["try_number"] + 1):
            yield "API logs", _shown(api, f"{path}/logs/{number}", query)
        for each in _pages(api, f"{path}/xcomEntries", "xcom_entries"):
            yield "API xcomEntries", _shown(api, f"{path}/xcomEntries/{each['key']}", query)


def _shown(api: AirflowAPI, path: str, query: Json) -> bytes:
    return json.dumps(api.request("GET", path, params=query)).encode()


def _pages(api: AirflowAPI, path: str, key: str) -> Iterator[Any]:
    offset, total = 0, 1
    while offset < total:
        page = api.request("GET", path, params={"limit": PAGE_SIZE, "offset": offset})
        yield from page[key]
        offset, total = offset + PAGE_SIZE, page["total_entries"]
