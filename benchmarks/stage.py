"""A real Airflow as it ships, with the DAGs of one benchmark, and a service for it."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from airflow_provider_workflow.emulator.server import EmulatorServer
from tools.local_airflow import LocalAirflow

HERE = Path(__file__).parent
ROOT = HERE.parent


@contextmanager
def running_airflow(
    dag_files: Mapping[str, str],
    connections: Mapping[str, str],
    dag_ids: Sequence[str] = (),
    **options: Any,
) -> Iterator[LocalAirflow]:
    """
    Start an Airflow, and stop it in the end.

    :param dag_files: texts by name; there are no others, as none is to run beside what is measured.
    :param dag_ids: to wait for.
    :param options: of :class:`LocalAirflow`.
    """
    # Triggers and operators of the benchmarks are imported from the root.
    env = {"AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL": "5", "PYTHONPATH": str(ROOT), **options.pop("env", {})}
    with tempfile.TemporaryDirectory(prefix="workflow-bench-", ignore_cleanup_errors=True) as home:
        folder = Path(home) / "dags"
        folder.mkdir()
        write(folder, dag_files)
        defaults: dict[str, Any] = {"parallelism": 4, "quick": False}
        with LocalAirflow(Path(home), folder, connections, env, **{**defaults, **options}) as airflow:
            airflow.wait_for_dags(dag_ids)
            yield airflow


def write(folder: Path, dag_files: Mapping[str, str]) -> None:
    """Write DAG files, given by name."""
    for name, text in dag_files.items():
        (folder / f"{name}.py").write_text(text)


@contextmanager
def stage(
    file: str,
    dag_ids: Sequence[str],
    inboxes: Sequence[str] = (),
    connections: Mapping[str, str] | None = None,
    **options: Any,
) -> Iterator[tuple[EmulatorServer, LocalAirflow]]:
    """
    Start a service and an Airflow, and stop them in the end.

    :param file: with the DAGs, below this folder.
    :param inboxes: to create first.
    :param connections: beside the one to the service.
    """
    path = HERE / file
    with EmulatorServer() as service:
        for inbox in inboxes:
            service.open_inbox(inbox)
        all_connections = {"workflow_default": service.connection_json(), **(connections or {})}
        with running_airflow({path.stem: path.read_text()}, all_connections, dag_ids, **options) as airflow:
            yield service, airflow


def wait(airflow: LocalAirflow, condition: Callable[[], bool], seconds: float, interval: float = 0.5) -> None:
    """
    Wait so long at most; what did not happen by then shows in the figures.

    A service or database that does not answer in time, on a machine without idle CPU, is asked again.
    """

    def answered() -> bool:
        try:
            return condition()
        except OSError:
            return False

    with contextlib.suppress(TimeoutError):
        airflow.api.wait_until(answered, seconds, "it is awaited", interval)


def put(service: EmulatorServer, inbox: str, count: int, text: str = "") -> None:
    """Put numbered messages, in parts that a request can hold."""
    for begin in range(0, count, 1000):
        numbers = range(begin, min(begin + 1000, count))
        service.put(inbox, *({"number": number, "text": text} for number in numbers))


def epoch(moment: str) -> float:
    """Seconds since 1970 of a moment as Airflow's API writes it."""
    return datetime.fromisoformat(moment.replace("Z", "+00:00")).timestamp()
