"""A real Airflow of separate processes in a private home, for the demo, the tests and the benchmarks.

>>> with LocalAirflow(home=tmp_path, dags_folder=here / "dags") as airflow:
...     airflow.wait_for_dags(["greet"])
...     run_id = airflow.api.trigger_dag("greet")
...     airflow.api.wait_for_run("greet", run_id)

The four processes are named ``scheduler``, ``triggerer``, ``dag-processor`` and ``api-server``;
:meth:`LocalAirflow.start_process` starts others. All end with the Python process that started them.
"""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from operator import lt
from pathlib import Path

import requests

from tools.airflow_api import AirflowAPI
from tools.airflow_settings import QUICK, create_database, environment, sqlite
from tools.sessions import Watchdog, end_sessions, members, send_signal

COMPONENTS = {
    "scheduler": ["scheduler", "--skip-serve-logs"],
    "triggerer": ["triggerer", "--skip-serve-logs"],
    "dag-processor": ["dag-processor"],
    "api-server": ["api-server"],
}
JOBS = {"scheduler": "SchedulerJob", "triggerer": "TriggererJob", "dag-processor": "DagProcessorJob"}
"""The commands whose process registers a job in the database, and the type of the job."""
DATABASE_SETTING = "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"


@dataclass
class _Component:
    module: str
    arguments: Sequence[str]
    process: subprocess.Popen[bytes]
    started_at: datetime


class LocalAirflow:
    """A real Airflow of separate processes in a private home.

    :param home: directory for the database, the logs and the secrets; created if missing. An existing home
        keeps its database and secrets.
    :param dags_folder: directory of the DAG files.
    :param connections: URI or JSON by connection id.
    :param env: environment variables that override all others. Those of the caller whose names begin with
        ``AIRFLOW`` are not inherited.
    :param python: interpreter of the environment in which Airflow is installed.
    :param parallelism: how many tasks run at once.
    :param executor: ``LocalExecutor``, or the name or path of another one, whose workers the caller starts.
    :param sql_alchemy_conn: URL of an empty or migrated database; None for SQLite in ``home``.
    :param log_level: log level of processes and tasks.
    :param components: arguments of ``airflow`` for each process, by its name.
    :param quick: shorten Airflow's intervals (:data:`tools.airflow_settings.QUICK`), so that tests wait
        less. False keeps Airflow's defaults, as benchmarks and crash tests require.
    :param login: name and password of a user for ``api``, if ``env`` demands a login.
    """

    def __init__(
        self,
        home: Path,
        dags_folder: Path,
        connections: Mapping[str, str] | None = None,
        env: Mapping[str, str] | None = None,
        *,
        python: str | Path = sys.executable,
        parallelism: int = 4,
        executor: str = "LocalExecutor",
        sql_alchemy_conn: str | None = None,
        log_level: str = "WARNING",
        components: Mapping[str, Sequence[str]] = COMPONENTS,
        quick: bool = True,
        login: tuple[str, str] | None = None,
    ) -> None:
        self.home = home.absolute()
        self.home.mkdir(parents=True, exist_ok=True)
        port = _free_port()
        self.url = f"http://localhost:{port}"
        self.env = {
            **environment(self.home, dags_folder.absolute(), port, connections or {}),
            "AIRFLOW__CORE__EXECUTOR": executor,
            "AIRFLOW__CORE__PARALLELISM": str(parallelism),
            DATABASE_SETTING: sql_alchemy_conn or sqlite(self.home),
            "AIRFLOW__LOGGING__LOGGING_LEVEL": log_level,
            **(QUICK if quick else {}),
            **(env or {}),
        }
        self.api = AirflowAPI(self.url, diagnose=self.tails, login=login)
        self._python = str(python)
        self._starting = components
        self._components: dict[str, _Component] = {}
        self._sessions: list[int] = []
        self._watchdog: Watchdog | None = None

    def start(self, timeout: float = 300) -> None:
        """Create the database, start all processes at once, and wait until all are healthy.

        :param timeout: seconds until healthy.
        :raises RuntimeError: a process ended; the text has the ends of the logs.
        """
        try:
            create_database(self._python, self.home, self.env)
            for name, arguments in self._starting.items():
                self.start_process(name, arguments)
            self.wait_until_healthy(timeout)
        except BaseException:
            self.stop()
            raise

    def stop(self, grace: float = 5) -> None:
        """End all processes that were started, and their descendants.

        :param grace: seconds from SIGTERM to SIGKILL. Three are enough, but sometimes the scheduler waits
            for an idle worker without end. A second Ctrl-C sends SIGKILL at once.
        """
        sessions, self._sessions = self._sessions, []
        try:
            end_sessions(sessions, grace)
        finally:
            for component in self._components.values():
                component.process.wait(timeout=10)
            if self._watchdog:
                self._watchdog.close()
                self._watchdog = None

    def __enter__(self) -> LocalAirflow:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start_process(self, name: str, arguments: Sequence[str], module: str = "airflow") -> None:
        """Start a Python module as a process in a session of its own, with its output in :meth:`logs`."""
        if name in self._components and self.alive(name):
            raise ValueError(f"{name} is running already")
        self._watchdog = self._watchdog or Watchdog()
        env, started_at = dict(self.env), datetime.now(UTC)
        if name == "api-server" and self.database == sqlite(self.home):
            # It writes its audit log in its event loop. Where another of its requests has the lock of SQLite,
            # and needs the event loop to commit, both wait: for the usual 5 s here, and not for longer.
            env[DATABASE_SETTING] = sqlite(self.home, seconds=5)
        with self.logs(name).open("ab") as log:
            process = subprocess.Popen(
                [self._python, "-m", module, *arguments],
                cwd=self.home,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._watchdog.add(process.pid)
        self._sessions.append(process.pid)
        self._components[name] = _Component(module, arguments, process, started_at)

    @property
    def database(self) -> str:
        """The URL of the database."""
        return self.env[DATABASE_SETTING]

    @property
    def names(self) -> list[str]:
        """The names of all processes that were started."""
        return list(self._components)

    def leader(self, name: str) -> int:
        """Return the process id of the first process of a component."""
        return self._components[name].process.pid

    def alive(self, name: str) -> bool:
        """Whether a process is running; its children do not count."""
        return self._components[name].process.poll() is None

    def pids(self, name: str) -> list[int]:
        """Return the process ids of a process and its descendants, orphans included."""
        return members(self.leader(name))

    def kill(self, name: str, sig: int = signal.SIGKILL, *, tree: bool = False) -> None:
        """Send a signal to a process.

        :param tree: also to its descendants, as when a container ends. Otherwise they are orphaned.
        """
        send_signal(self.pids(name) if tree else [self.leader(name)], sig)
        if sig == signal.SIGKILL:
            self._components[name].process.wait(timeout=10)

    def restart(self, name: str, grace: float = 5) -> None:
        """Restart a process; end it first if it is running. Orphans of a killed process stay."""
        component = self._components[name]
        if self.alive(name):
            end_sessions([component.process.pid], grace)
            component.process.wait(timeout=10)
        self.start_process(name, component.arguments, component.module)

    def logs(self, name: str) -> Path:
        """Return the path of a process's log."""
        return self.home / f"{name}.log"

    def tails(self, lines: int = 15) -> str:
        """Return the last lines of every process's log, as text."""
        text = []
        for name in self._components:
            text.append(f"--- {name} ({'alive' if self.alive(name) else 'ended'}):")
            text += self.logs(name).read_text(errors="replace").splitlines()[-lines:]
        return "\n".join(text)

    def wait_until_healthy(self, timeout: float = 180) -> None:
        """
        Wait until Airflow reports all components as healthy, and its API for tasks is ready.

        That a process is healthy is said of one that was killed too, until its last heartbeat is old. So each
        process that was started must have registered its job as well.
        """

        def healthy() -> bool:
            if ended_names := [name for name in self._components if not self.alive(name)]:
                raise RuntimeError(
                    f"{', '.join(ended_names)} ended while Airflow was starting\n{self.tails()}"
                )
            try:
                return set(self.api.health().values()) == {"healthy"} and self._have_jobs()
            except (requests.ConnectionError, requests.Timeout):
                return False

        self.api.wait_until(healthy, timeout, "every component healthy", interval=0.2)
        self.api.prepare_for_tasks()

    def _have_jobs(self) -> bool:
        """Whether the newest jobs began after the processes that were started last."""
        for command, kind in JOBS.items():
            components = [entry for entry in self._components.values() if entry.arguments[0] == command]
            started_times = sorted(component.started_at for component in components)
            jobs = sorted(datetime.fromisoformat(job["start_date"]) for job in self.api.jobs(kind))
            if len(jobs) < len(started_times) or any(map(lt, jobs[-len(started_times) :], started_times)):
                return False
        return True

    def wait_for_dags(self, dag_ids: Collection[str], timeout: float = 120) -> None:
        """Wait until the DAGs can be run.

        :raises TimeoutError: after ``timeout`` seconds; the text has the missing DAGs and the import errors.
        """
        try:
            self.api.wait_until(
                lambda: set(dag_ids) <= {dag["dag_id"] for dag in self.api.dags()}, timeout, "DAGs"
            )
        except TimeoutError as error:
            missing = set(dag_ids) - {dag["dag_id"] for dag in self.api.dags()}
            errors = "\n".join(failure["stack_trace"] for failure in self.api.import_errors())
            raise TimeoutError(
                f"no DAG {', '.join(missing)} within {timeout:g} s\n{errors}\n{error}"
            ) from None


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port
