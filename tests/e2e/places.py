"""Every place where an Airflow may have written something down, and what it holds."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from cryptography.fernet import Fernet, InvalidToken
from sqlalchemy import Row, create_engine, inspect, text

from tools.airflow_api import PAGE_SIZE, AirflowAPI, Json
from tools.local_airflow import LocalAirflow

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


def holds(places: Iterable[Place], pattern: str, text: str) -> bool:
    """
    Whether a text is in one of these places.

    :param where: pattern of their names.
    """
    return any(fnmatchcase(name, pattern) and text.encode() in content for name, content in places)


def files(home: Path) -> Iterator[Place]:
    """The files of a home: logs, the database, and whatever else lies there."""
    for path in home.rglob("*"):
        if path.is_file():
            yield f"file {path.relative_to(home)}", path.read_bytes()


def rows_of_query(airflow: LocalAirflow, query: str) -> list[Row[Any]]:
    """What a query of Airflow's database finds."""
    engine = create_engine(airflow.database)
    try:
        with engine.connect() as connection:
            return list(connection.execute(text(query)))
    finally:
        engine.dispose()


def rows(airflow: LocalAirflow) -> Iterator[Place]:
    """The values of every table; in the files of a database a long one is cut into pages."""
    tables = inspect(create_engine(airflow.database))
    for table in tables.get_table_names():
        columns = [column["name"] for column in tables.get_columns(table)]
        for row in rows_of_query(airflow, f'SELECT * FROM "{table}"'):
            for column, value in zip(columns, row, strict=True):
                if isinstance(value, (bytes, memoryview)):
                    yield f"{table}.{column}", bytes(value)
                elif isinstance(value, str):
                    yield f"{table}.{column}", value.encode()
                elif isinstance(value, (dict, list)):
                    yield f"{table}.{column}", json.dumps(value).encode()


def decrypted_places(airflow: LocalAirflow) -> Iterator[Place]:
    """What Airflow has encrypted in its database, in clear."""
    fernet = Fernet(airflow.env["AIRFLOW__CORE__FERNET_KEY"])
    for place, value in rows(airflow):
        with suppress(InvalidToken):
            yield f"decrypted {place}", fernet.decrypt(value)


def places_of_lists(api: AirflowAPI) -> Iterator[Place]:
    """What the API, and so the page, shows in lists."""
    for path, key in LISTED.items():
        for page in _pages(api, path, key):
            yield f"API {path}", json.dumps(page).encode()


def of_tasks(api: AirflowAPI) -> Iterator[Place]:
    """The logs of every try of every task, and its XComs, as the API shows them."""
    for task in _pages(api, "dags/~/dagRuns/~/taskInstances", "task_instances"):
        run = f"dags/{task['dag_id']}/dagRuns/{task['dag_run_id']}"
        path = f"{run}/taskInstances/{task['task_id']}"
        query = {"map_index": task["map_index"], "full_content": True}
        for number in range(1, task["try_number"] + 1):
            yield "API logs", _shown(api, f"{path}/logs/{number}", query)
        for page in _pages(api, f"{path}/xcomEntries", "xcom_entries"):
            yield "API xcomEntries", _shown(api, f"{path}/xcomEntries/{page['key']}", query)


def _shown(api: AirflowAPI, path: str, query: Json) -> bytes:
    return json.dumps(api.request("GET", path, params=query)).encode()


def _pages(api: AirflowAPI, path: str, key: str) -> Iterator[Any]:
    offset, total = 0, 1
    while offset < total:
        page = api.request("GET", path, params={"limit": PAGE_SIZE, "offset": offset})
        yield from page[key]
        offset, total = offset + PAGE_SIZE, page["total_entries"]
