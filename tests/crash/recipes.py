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
    :param promised: False for the shape that is only there to be compared with.
    """

    name: str
    inbox: str
    count: Count
    once: bool = True
    promised: bool = True

    def kept(self, account: Account) -> bool:
        """Whether what it promises was kept."""
        return account.lost == 0 and account.unfinished == 0 and (account.duplicates == 0 or not self.once)


def runs_of(dag_id: str) -> Count:
    """Count the runs of a target DAG."""

    def count(account: Account, api: AirflowAPI, _: Path) -> None:
        account.count_runs(api.dag_runs(dag_id))

    return count


def work_done(account: Account, _: AirflowAPI, worked: Path) -> None:
    """Count the messages whose work was done, however often."""
    account.done.update(each.name for each in worked.iterdir() if each.name in account.put)


def deliveries_of(asset: str) -> Count:
    """Count the messages in stored events of an asset; what Airflow then makes of these is not counted."""

    def count(account: Account, api: AirflowAPI, _: Path) -> None:
        events = api.asset_events(asset)
        account.count_deliveries(message for event in events for message in messages_of(event["extra"]))

    return count


RECIPES = (
    Recipe("sensor with dispatch", "crash-sensor", runs_of("handle_sensor")),
    Recipe("notice with dispatch", "crash-notice", runs_of("handle_notice")),
    Recipe("messages, acknowledged by hand", "crash-manual", work_done, once=False),
    Recipe("messages in asset events", "crash-events", deliveries_of("crash_events"), once=False),
    Recipe("acknowledged first, to compare", "crash-ack-first", runs_of("handle_ack_first"), promised=False),
)
