"""Which processes an Airflow under test consists of, and where it keeps its data."""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tools.local_airflow import COMPONENTS, LocalAirflow

POSTGRES_VARIABLE = "WORKFLOW_TEST_POSTGRES"
"""Address of a PostgreSQL server on which databases may be created: ``postgresql://user@host:port/database``."""
REDIS_VARIABLE = "WORKFLOW_TEST_REDIS"
"""Address of a Redis database that may be emptied: ``redis://host:port/number``."""

HEALING = {
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "20",
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "5",
    "AIRFLOW__SCHEDULER__TASK_QUEUED_TIMEOUT": "30",
    "AIRFLOW__SCHEDULER__TASK_QUEUED_TIMEOUT_CHECK_INTERVAL": "5",
    "AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "15",
    "AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_THRESHOLD": "15",
    "AIRFLOW__SCHEDULER__NUM_STUCK_IN_QUEUED_RETRIES": "10",
    "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "5",
    "AIRFLOW__TRIGGERER__JOB_HEARTBEAT_SEC": "2",
    "AIRFLOW__TRIGGERER__TRIGGERER_HEALTH_CHECK_THRESHOLD": "10",
    "AIRFLOW__TRIGGERER__SHARED_STREAM_ACK_TIMEOUT": "30",
    "AIRFLOW__CELERY_BROKER_TRANSPORT_OPTIONS__VISIBILITY_TIMEOUT": "60",
    "AIRFLOW__CELERY__TASK_ACKS_LATE": "True",
}
"""How soon Airflow notices that a part of it is gone: minutes to a day by default, too long for a test."""


@dataclass(frozen=True)
class Topology:
    """
    :param name: what it is, for the table.
    :param components: arguments of ``airflow`` by name of the process.
    :param executor: the executor of its tasks.
    :param database: address of the metadata database; SQLite in the home where None.
    :param env: further environment variables.
    """

    name: str
    components: Mapping[str, list[str]]
    executor: str = "LocalExecutor"
    database: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)

    def airflow(
        self, home: Path, dags: Path, connections: Mapping[str, str], env: Mapping[str, str], **options: Any
    ) -> LocalAirflow:
        """An Airflow of these processes, with the package and the tests of this checkout."""
        return LocalAirflow(
            home,
            dags,
            connections,
            {**self.env, **env, "PYTHONPATH": str(Path(__file__).parents[2])},
            parallelism=8,
            executor=self.executor,
            sql_alchemy_conn=self.database,
            log_level="INFO",
            components=self.components,
            **options,
        )


def exit_code(name: str, holds: Callable[[Topology, Path], bool]) -> int:
    """
    Try something in a folder, which is kept for a look at it unless everything held.

    :param name: a part of the folder's name.
    :param holds: what to try; whether everything held.
    """
    home, promise_holds = Path(tempfile.mkdtemp(prefix=f"workflow-{name}-")), False
    try:
        with topology() as topology_of_run:
            promise_holds = holds(topology_of_run, home)
    finally:
        if promise_holds:
            shutil.rmtree(home)
        else:
            print(f"What was written is in {home}")
    return 0 if promise_holds else 1


@contextmanager
def topology() -> Iterator[Topology]:
    """
    The production topology where the environment names its parts, and the smallest one elsewhere.

    The database is made for this one test and dropped after it; Redis is emptied.
    """
    postgres, redis_url = os.environ.get(POSTGRES_VARIABLE), os.environ.get(REDIS_VARIABLE)
    if not (postgres and redis_url):
        # Tasks run below the scheduler.
        yield Topology("SQLite, LocalExecutor, one of each", COMPONENTS)
        return
    import redis

    redis.Redis.from_url(redis_url).flushdb()
    with database(postgres) as address:
        yield production(address, redis_url)


def production(address: str, redis_url: str) -> Topology:
    """Two of everything that Airflow can have two of, on PostgreSQL and Celery over Redis."""
    components = {name: COMPONENTS[name] for name in ("dag-processor", "api-server")}
    for number in (1, 2):
        components |= {f"{name}-{number}": COMPONENTS[name] for name in ("scheduler", "triggerer")}
        components[f"worker-{number}"] = [
            *("celery", "worker", "--skip-serve-logs", "--without-mingle", "--without-gossip"),
            *("--concurrency", "4", "--pid", f"worker-{number}.pid"),
        ]
    return Topology(
        name="PostgreSQL, CeleryExecutor on Redis, two schedulers, triggerers and workers, one API server",
        components=components,
        executor="CeleryExecutor",
        database=for_airflow(address),
        env={
            "AIRFLOW__CELERY__BROKER_URL": redis_url,
            "AIRFLOW__CELERY__RESULT_BACKEND": address.replace("postgresql://", "db+postgresql://", 1),
        },
    )


def for_airflow(address: str) -> str:
    """The address of a PostgreSQL database as Airflow's settings have it."""
    return address.replace("postgresql://", "postgresql+psycopg2://", 1)


@contextmanager
def metadata_database() -> Iterator[str | None]:
    """A new metadata database, where the environment names a server; None, for SQLite, elsewhere."""
    server = os.environ.get(POSTGRES_VARIABLE)
    if not server:
        yield None
        return
    with database(server) as address:
        yield for_airflow(address)


@contextmanager
def database(server: str, prefix: str = "workflow_test") -> Iterator[str]:
    """
    The address of a new database on a PostgreSQL server; dropped with the context.

    :param prefix: of its name.
    """
    import psycopg2

    name = f"{prefix}_{secrets.token_hex(4)}"

    def tell(statement: str) -> None:
        connection = psycopg2.connect(server)
        connection.autocommit = True
        with connection.cursor() as cursor:
            cursor.execute(statement)
        connection.close()

    tell(f'CREATE DATABASE "{name}"')
    try:
        yield server.rsplit("/", 1)[0] + "/" + name
    finally:
        tell(f'DROP DATABASE "{name}" WITH (FORCE)')
