"""The servers that a deployment is on, and its metadata database."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.crash.topology import POSTGRES_VARIABLE, REDIS_VARIABLE, database, for_airflow

RABBITMQ_VARIABLE = "WORKFLOW_TEST_RABBITMQ"
"""Address of a RabbitMQ broker on which queues may be created: ``amqp://user:password@host:port/``."""
PREFIX = "workflow_bench"
"""Of the names of the databases."""
EXAMPLES = {
    POSTGRES_VARIABLE: "postgresql://postgres@127.0.0.1:5432/postgres",
    REDIS_VARIABLE: "redis://127.0.0.1:6379/15",
    RABBITMQ_VARIABLE: "amqp://guest:guest@127.0.0.1:5672/",
}


def check_servers(*, redis: bool = False, rabbitmq: bool = False) -> None:
    """
    :param redis: whether Redis is needed too.
    :param rabbitmq: whether RabbitMQ is needed too.
    :raises RuntimeError: the environment does not name a server.
    """
    needed = {POSTGRES_VARIABLE: True, REDIS_VARIABLE: redis, RABBITMQ_VARIABLE: rabbitmq}
    for name in (name for name, is_needed in needed.items() if is_needed):
        if not os.environ.get(name):
            raise RuntimeError(f"This is measured with a server: set {name}, for example to {EXAMPLES[name]}")


class Database:
    """
    A metadata database, read past Airflow, so that reading costs its API server nothing.

    :param address: ``postgresql://...``
    """

    def __init__(self, address: str) -> None:
        import psycopg2

        self.address = address
        self._connection = psycopg2.connect(address)
        self._connection.autocommit = True

    @property
    def url(self) -> str:
        """The address as Airflow's settings have it."""
        return for_airflow(self.address)

    def rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        """The rows that a query finds."""
        with self._connection.cursor() as cursor:
            cursor.execute(query, values)
            return list(cursor.fetchall())

    def execute(self, statement: str, *values: Any) -> None:
        """Change something."""
        with self._connection.cursor() as cursor:
            cursor.execute(statement, values)

    def value(self, query: str, *values: Any) -> Any:
        """The first value of the first row; None if there is no row."""
        found = self.rows(query, *values)
        return found[0][0] if found else None

    def close(self) -> None:
        self._connection.close()


@contextmanager
def metadata_database() -> Iterator[Database]:
    """A new database, which is dropped in the end."""
    with database(os.environ[POSTGRES_VARIABLE], PREFIX) as address:
        found = Database(address)
        try:
            yield found
        finally:
            found.close()
