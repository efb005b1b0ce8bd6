"""A real Airflow as it ships, with the DAGs of one benchmark, and a service for it."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from airflow_provider_workflow.emulator.server import EmulatorServer
from tools.local_airflow import LocalAirflow

ROOT = Path(__file__).parents[1]
DAGS = Path(__file__).parent / "dags"


@contextmanager
def stage(
    name: str,
    dag_ids: Sequence[str],
    inboxes: Sequence[str] = (),
    connections: Mapping[str, str] | None = None,
    *,
    folder: Path = DAGS,
    **options: Any,
) -> Iterator[tuple[EmulatorServer, LocalAirflow]]:
    """
    Start both, and stop them in the end.

    :param name: of the file; there are no others, as none is to run beside what is measured.
    :param dag_ids: to wait for.
    :param inboxes: to create first.
    :param connections: beside the one to the service, as URI or JSON by connection id.
    :param folder: with the file.
    :param options: of :class:`LocalAirflow`.
    """
    # A trigger of the benchmarks is imported from the root.
    env = {"AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL": "5", "PYTHONPATH": str(ROOT), **options.pop("env", {})}
    every_option = {"parallelism": 4, "quick": False, **options}
    with private_folder() as home, EmulatorServer() as service:
        dags = home / "dags"
        dags.mkdir()
        shutil.copy(folder / f"{name}.py", dags)
        for inbox in inboxes:
            service.open_inbox(inbox)
        every = {"workflow_default": service.connection_json(), **(connections or {})}
        with LocalAirflow(home, dags, every, env=env, **every_option) as airflow:
            airflow.wait_for_dags(dag_ids)
            yield service, airflow


@contextmanager
def private_folder() -> Iterator[Path]:
    """A new folder for an Airflow, which is removed in the end."""
    with tempfile.TemporaryDirectory(prefix="workflow-bench-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def epoch(moment: str) -> float:
    """Seconds since 1970 of a moment as Airflow's API writes it."""
    return datetime.fromisoformat(moment.replace("Z", "+00:00")).timestamp()
