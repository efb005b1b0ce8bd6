"""A small client of Airflow's REST API, with bounded waits whose errors describe the last state."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, TypeVar
from urllib.parse import quote

import requests

Json = dict[str, Any]
T = TypeVar("T")

ANSWER_SECONDS = 90
"""Longer than :meth:`AirflowAPI.prepare_for_tasks` takes on a busy machine."""
LOCKED_SECONDS = 60
"""How long starting a run is retried after errors of the database."""
PAGE_SIZE = 100  # the maximum of a server with default settings


class AirflowAPIError(RuntimeError):
    """The API server answered with an error.

    :param status: HTTP status.
    :param body: text of the answer.
    """

    def __init__(self, method: str, path: str, status: int, body: str) -> None:
        super().__init__(f"{method} {path} answered {status}: {body[:2000]}")
        self.status = status
        self.body = body


class AirflowAPI:
    """Airflow's REST API at one URL.

    :param url: URL of the API server.
    :param diagnose: returns text for the error of a wait that timed out, such as the ends of the logs.
    :param login: name and password of a user; None for a server on which everybody is an admin.
    """

    def __init__(
        self, url: str, diagnose: Callable[[], str] = str, login: tuple[str, str] | None = None
    ) -> None:
        self.url = url
        self._diagnose = diagnose
        self._login = login
        self._session = requests.Session()
        self._session.trust_env = False  # a proxy in the environment cannot reach localhost

    def request(self, method: str, path: str, **arguments: Any) -> Any:
        """Send one request below ``/api/v2`` and return the JSON of its answer.

        :param arguments: passed to ``requests``, such as ``params`` and ``json``.
        :raises AirflowAPIError: for any status of 400 or more.
        """
        if "Authorization" not in self._session.headers:
            self._session.headers["Authorization"] = f"Bearer {self.token()}"
        answer = self._send(method, f"/api/v2/{path}", **arguments)
        return answer.json() if answer.content else None

    def token(self) -> str:
        """Log in, and return the token, which the UI has as a cookie."""
        if self._login is None:
            answer = self._send("GET", "/auth/token")
        else:
            username, password = self._login
            answer = self._send("POST", "/auth/token", json={"username": username, "password": password})
        return str(answer.json()["access_token"])

    def _send(self, method: str, path: str, **arguments: Any) -> requests.Response:
        answer = self._session.request(method, self.url + path, timeout=ANSWER_SECONDS, **arguments)
        if answer.status_code >= 400:
            raise AirflowAPIError(method, path, answer.status_code, answer.text)
        return answer

    def _pages(self, path: str, key: str, **params: Any) -> Iterator[Json]:
        offset, total = 0, 1
        while offset < total:
            page = self.request("GET", path, params={"limit": PAGE_SIZE, "offset": offset, **params})
            yield from page[key]
            offset, total = offset + PAGE_SIZE, page["total_entries"]

    def health(self) -> dict[str, str | None]:
        """Return the status (``healthy``, ``unhealthy`` or None) by component."""
        parts = self._send("GET", "/api/v2/monitor/health").json()
        return {name: part["status"] for name, part in parts.items() if part}

    def prepare_for_tasks(self) -> None:
        """Make the API server set up its API for tasks, during which it answers no other request.

        Otherwise it does that at the first request of a task, which took 10 to 30 s; meanwhile a request
        timed out waiting for SQLite.
        """
        self._send("GET", "/execution/health")

    def dags(self) -> list[Json]:
        """Return every DAG that is not stale."""
        return list(self._pages("dags", "dags"))

    def import_errors(self) -> list[Json]:
        """Return the import errors; each has ``filename`` and ``stack_trace``."""
        return list(self._pages("importErrors", "import_errors"))

    def pause(self, dag_id: str) -> None:
        """Pause a DAG."""
        self.request("PATCH", f"dags/{dag_id}", json={"is_paused": True})

    def unpause(self, dag_id: str) -> None:
        """Unpause a DAG."""
        self.request("PATCH", f"dags/{dag_id}", json={"is_paused": False})

    def trigger_dag(
        self, dag_id: str, conf: Mapping[str, Any] | None = None, run_id: str | None = None
    ) -> str:
        """Start a run and return its id."""
        body = {"logical_date": None, "conf": dict(conf or {}), "dag_run_id": run_id}

        def started() -> str | None:
            try:
                return str(self.request("POST", f"dags/{dag_id}/dagRuns", json=body)["dag_run_id"])
            except AirflowAPIError as error:
                # SQLite rejects a request without effect during a long write.
                if error.status == 500 and "Database error" in error.body:
                    return None
                raise

        return self.wait_until(started, LOCKED_SECONDS, f"a run of {dag_id} accepted by the database")

    def dag_runs(self, dag_id: str, **params: str) -> list[Json]:
        """Return every run of a DAG, or those that the API finds with further parameters; oldest first."""
        return list(self._pages(f"dags/{dag_id}/dagRuns", "dag_runs", order_by="id", **params))

    def dag_run(self, dag_id: str, run_id: str) -> Json:
        """Return one run."""
        run: Json = self.request("GET", _run(dag_id, run_id))
        return run

    def task_instances(self, dag_id: str, run_id: str) -> list[Json]:
        """Return the task instances of a run."""
        return list(self._pages(f"{_run(dag_id, run_id)}/taskInstances", "task_instances"))

    def jobs(self, kind: str) -> list[Json]:
        """Return the jobs of a type, such as ``TriggererJob``: one for each process that was ever started."""
        return list(self._pages("jobs", "jobs", job_type=kind))

    def running_tasks(self) -> list[Json]:
        """Return the running task instances of all DAGs; ``pid`` is the process of each."""
        return list(self._pages("dags/~/dagRuns/~/taskInstances", "task_instances", state="running"))

    def asset_events(self, asset: str) -> list[Json]:
        """Return every event of an asset, oldest first; ``extra`` has the payload of a watcher's event."""
        assets = self._pages("assets", "assets", name_pattern=asset)
        ids = [entry["id"] for entry in assets if entry["name"] == asset]

        def events() -> tuple[list[Json]] | None:
            pages = (
                self._pages("assets/events", "asset_events", asset_id=number, order_by="timestamp")
                for number in ids
            )
            try:
                return ([event for page in pages for event in page],)
            except AirflowAPIError as error:
                # Airflow 3.3 answers so until the DAG runs that an event has created have started.
                if error.status == 500:
                    return None
                raise

        return self.wait_until(events, ANSWER_SECONDS, f"the events of the asset {asset}")[0]

    def task_log(
        self, dag_id: str, run_id: str, task_id: str, try_number: int = 1, map_index: int = -1
    ) -> str:
        """Return the log of one try of a task, a line per event."""
        path = f"{_run(dag_id, run_id)}/taskInstances/{task_id}/logs/{try_number}"
        answer = self.request("GET", path, params={"full_content": True, "map_index": map_index})
        return "\n".join(_line(event) for event in answer["content"])

    def xcom(
        self, dag_id: str, run_id: str, task_id: str, key: str = "return_value", map_index: int = -1
    ) -> Any:
        """Return the value of an XCom."""
        path = f"{_run(dag_id, run_id)}/taskInstances/{task_id}/xcomEntries/{quote(key, safe='')}"
        return self.request("GET", path, params={"map_index": map_index})["value"]

    def clear_task(self, dag_id: str, run_id: str, task_id: str, **more: Any) -> None:
        """
        Clear a task instance, so that it runs again.

        :param more: further fields of the request.
        """
        body = {"dry_run": False, "only_failed": False, "dag_run_id": run_id, "task_ids": [task_id], **more}
        self.request("POST", f"dags/{dag_id}/clearTaskInstances", json=body)

    def wait_until(
        self, predicate: Callable[[], T | None], timeout: float, description: str, interval: float = 0.3
    ) -> T:
        """Call ``predicate`` until its result is true, and return that.

        :param timeout: seconds.
        :param what: what is awaited, for the TimeoutError.
        :param interval: seconds between two calls.
        """
        deadline = time.monotonic() + timeout
        while not (answer := predicate()):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{description}: not within {timeout:g} s\n{self._diagnose()}")
            time.sleep(interval)
        return answer

    def wait_for_run(
        self, dag_id: str, run_id: str, timeout: float = 60, states: Collection[str] = ("success",)
    ) -> Json:
        """Wait until a run exists and is in one of ``states``, and return it.

        :param timeout: seconds.
        :raises TimeoutError: it is not in time.
        :raises AssertionError: the run ended in another state; the text has the logs of failed tasks.
        """

        def settled() -> Json | None:
            try:
                run = self.dag_run(dag_id, run_id)
            except AirflowAPIError as error:
                if error.status == 404:
                    return None
                raise
            return run if run["state"] in {"success", "failed", *states} else None

        run = self.wait_until(settled, timeout, f"run {run_id} of {dag_id} in state {' or '.join(states)}")
        if run["state"] not in states:
            raise AssertionError(f"run {run_id} of {dag_id} {run['state']}\n{self._failures(dag_id, run_id)}")
        return run

    def _failures(self, dag_id: str, run_id: str) -> str:
        failed_tasks = [task for task in self.task_instances(dag_id, run_id) if task["state"] == "failed"]
        return "\n".join(
            f"--- {task['task_id']}, try {task['try_number']}:\n"
            + self.task_log(dag_id, run_id, task["task_id"], task["try_number"], task["map_index"])[-3000:]
            for task in failed_tasks
        )


def _run(dag_id: str, run_id: str) -> str:
    return f"dags/{dag_id}/dagRuns/{quote(run_id, safe='')}"


def _line(event: Json | str) -> str:
    """Format an event of a task log, structured or not."""
    if isinstance(event, str):
        return event
    errors = [f"{error['exc_type']}: {error['exc_value']}" for error in event.get("error_detail") or ()]
    return "\n".join([str(event["event"]), *errors])
