"""A real Airflow as it ships, with the DAGs of the benchmarks, and a service for it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from airflow_provider_workflow.emulator.server import EmulatorServer
from tools.local_airflow import LocalAirflow

DAGS = Path(__file__).parent / "dags"
INBOXES = ("latency", "throughput")
"""Of the DAGs: each is there for all of them, as none is to fail beside what is measured."""


@contextmanager
def stage(dag_ids: Sequence[str]) -> Iterator[tuple[EmulatorServer, LocalAirflow]]:
    """
    Start both, and stop them in the end.

    :param dag_ids: to wait for.
    """
    home = Path(tempfile.mkdtemp(prefix="workflow-bench-"))
    env = {"AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL": "5"}
    with EmulatorServer() as service:
        for name in INBOXES:
            service.open_inbox(name)
        connections = {"workflow_default": service.connection_json()}
        with LocalAirflow(home, DAGS, connections, parallelism=4, quick=False, env=env) as airflow:
            airflow.wait_for_dags(dag_ids)
            yield service, airflow


def epoch(moment: str) -> float:
    """Seconds since 1970 of a moment as Airflow's API writes it."""
    return datetime.fromisoformat(moment.replace("Z", "+00:00")).timestamp()
