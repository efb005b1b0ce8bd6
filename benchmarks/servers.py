"""The servers that a whole deployment is on, and its metadata database."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.crash.topology import POSTGRES_VARIABLE, REDIS_VARIABLE, database, for_airflow

RABBITMQ_VARIABLE = "WORKFLOW_TEST_RABBITMQ"
"""Address of a RabbitMQ broker on which queues may be created: ``amqp://user:password@host:port/``."""
EXAMPLES = {
    POSTGRES_VARIABLE: "postgresql://postgres@127.0.0.1:5432/postgres",
    REDIS_VARIABLE: "redis://127.0.0.1:6379/15",
    RABBITMQ_VARIABLE: "amqp://guest:guest@127.0.0.1:5672/",
}


def check_servers(*variables: str) -> None:
    """
    :raises RuntimeError: the environment does not name one of these servers.
    """
    for name in variables:
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
        self.url = for_airflow(address)
        """The address as Airflow's settings have it."""
        self._connection = psycopg2.connect(address)
        self._connection.autocommit = True

    def rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        """The rows that a query finds; none for a statement that changes something."""
        with self._connection.cursor() as cursor:
            cursor.execute(query, values)
            return list(cursor.fetchall()) if cursor.description else []

    def value(self, query: str, *values: Any) -> Any:
        """The first value of the first row; None if there is no row."""
        rows = self.rows(query, *values)
        return rows[0][0] if rows else None

    def close(self) -> None:
        """End the connection."""
        self._connection.close()


@contextmanager
def metadata_database() -> Iterator[Database]:
    """A new database, which is dropped in the end."""
    with database(os.environ[POSTGRES_VARIABLE], "workflow_bench") as address:
        open_database = Database(address)
        try:
            yield open_database
        finally:
            open_database.close()
