"""What each recipe promises, and how one sees what it did."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from airflow_provider_workflow.assets import messages_of
from tests.crash.account import Account
from tools.airflow_api import AirflowAPI

Count = Callable[[Account, AirflowAPI, Path], None]


@dataclass(frozen=True)
class Recipe:
    """
    :param name: for the table.
    :param inbox: where its messages are put.
    :param count: counts what was done for each message.
    :param once: whether each message may be worked on only once.
    :param dead_letter_dag_id: with one, some of its messages are rejected, or end the process of their task,
        and none may be quarantined.
    :param checks: whether its listener checks payloads, so that some may end its process.
    """

    name: str
    inbox: str
    count: Count
    once: bool = True
    dead_letter_dag_id: str | None = None
    checks: bool = False

    def is_kept(self, account: Account) -> bool:
        """Whether what it promises was kept."""
        is_done = account.lost == account.unfinished == 0 and (account.duplicates == 0 or not self.once)
        return is_done and not account.changed and not (self.dead_letter_dag_id and account.quarantined)


def runs_of(dag_id: str, *, once_per_key: bool = False) -> Count:
    """Count the runs of a target DAG."""

    def count(account: Account, api: AirflowAPI, _: Path) -> None:
        account.count_runs(api.dag_runs(dag_id), once_per_key=once_per_key)

    return count


def work_done(account: Account, _: AirflowAPI, worked: Path) -> None:
    """Count the messages whose work was done, however often."""
    account.done.update(file.name for file in worked.iterdir() if file.name in account.put)


def deliveries_of(asset: str) -> Count:
    """Count the messages in stored events of an asset; what Airflow then makes of these is not counted."""

    def count(account: Account, api: AirflowAPI, _: Path) -> None:
        events = api.asset_events(asset)
        account.count_deliveries(message for event in events for message in messages_of(event["extra"]))

    return count


RECIPES = (
    Recipe(
        "sensor with dispatch",
        "crash-sensor",
        runs_of("handle_sensor"),
        dead_letter_dag_id="dead_letters_sensor",
        checks=True,
    ),
    Recipe(
        "notice with dispatch",
        "crash-notice",
        runs_of("handle_notice"),
        dead_letter_dag_id="dead_letters_notice",
        checks=True,
    ),
    Recipe(
        "inbox_dag, once per key, with a schema",
        "crash-decorated",
        runs_of("handle_decorated", once_per_key=True),
        dead_letter_dag_id="dead_letters_decorated",
    ),
    Recipe(
        "task.workflow_inbox",
        "crash-batches",
        work_done,
        once=False,
        dead_letter_dag_id="dead_letters_batches",
    ),
    Recipe("messages, acknowledged by hand", "crash-manual", work_done, once=False),
    Recipe("messages in asset events", "crash-events", deliveries_of("crash_events"), once=False),
)
