"""Dead letters in Airflow's metadata database: runs of dead-letter DAGs, with the runs that replay them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from airflow_provider_workflow.database import dag_runs
from airflow_provider_workflow.database.dag_runs import FoundRun, StoredRun
from airflow_provider_workflow.dispatch.replay import run_id_of_replay

ENTRIES = (
    *("message_id", "connection_id", "inbox_id", "created_at", "delivery_count"),
    *("reason", "cause", "target_dag_id"),
)
"""The entries of a dead letter's conf without its message."""


@dataclass(frozen=True)
class StoredDeadLetter:
    """
    A dead letter, without its message.

    :param run: its own run, of the dead-letter DAG.
    :param replay_run_id: id of the run that replays it.
    :param replays: the runs with this id.
    """

    run: StoredRun
    replay_run_id: str
    replays: list[FoundRun]

    @property
    def message_id(self) -> str:
        """The id of its message, in printable characters; the id of its run if its conf has none."""
        return self.run.conf["message_id"] or self.run.run_id

    @property
    def delivery_count(self) -> int | None:
        """How often its message had been leased; None if its conf does not say."""
        return dag_runs.number(self.run.conf["delivery_count"])


def with_replays(page: list[StoredRun]) -> Iterator[StoredDeadLetter]:
    """The dead letters of some runs, with the runs that replay them."""
    for start in range(0, len(page), dag_runs.PAGE):
        some = page[start : start + dag_runs.PAGE]
        inbox_ids = [run.conf["inbox_id"] or "" for run in some]
        run_ids = [
            run_id_of_replay(run.conf["message_id"] or "", inbox_id, run.run_id)
            for run, inbox_id in zip(some, inbox_ids, strict=True)
        ]
        targets = {target for run in some if (target := run.conf["target_dag_id"])}
        replays = dict(zip(run_ids, inbox_ids, strict=True))
        found = dag_runs.runs_of(replays, targets, since=min(run.run_after for run in some))
        for run, run_id in zip(some, run_ids, strict=True):
            yield StoredDeadLetter(run, run_id, found.get(run_id, []))
