"""Watchers of many inboxes or queues in a real triggerer, and what the process that runs them takes."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from airflow_provider_workflow.emulator.server import EmulatorServer
from benchmarks.polling import POLL_SECONDS, SETTLE_SECONDS
from benchmarks.process import Seen, Watch
from benchmarks.sqs import Queues
from benchmarks.stage import ROOT, private_folder
from tools.local_airflow import LocalAirflow

BEGUN_SECONDS = 180.0
"""How long it is waited for that every watcher has polled once; then what is there is measured."""
MAX_POLL_SECONDS = 60.0
"""Beneath an event stream, at default settings."""

DAG_FILE = """
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, Asset, AssetAny, AssetWatcher
{imported}


def watched(name):
    return Asset(name, watchers=[AssetWatcher(name=name, trigger={trigger})])


with DAG("consumer", schedule=AssetAny(*[watched("inbox_%d" % n) for n in range({count})])):
    EmptyOperator(task_id="nothing")
"""
OURS = "from airflow_provider_workflow.triggers.notice import WorkflowInboxNoticeTrigger as Trigger"
THEIRS = "from airflow.providers.amazon.aws.triggers.sqs import SqsSensorTrigger as Trigger"


@dataclass(frozen=True)
class Watchers:
    """
    So many of one kind.

    :param count: how many; 0 for a triggerer that has none.
    :param imported: the line that imports their class.
    :param trigger: makes one, from ``name``.
    :param settle_seconds: from the first poll of each until it is measured.
    :param window_seconds: of each window.
    """

    count: int
    imported: str = ""
    trigger: str = ""
    settle_seconds: float = SETTLE_SECONDS
    window_seconds: float = POLL_SECONDS

    @property
    def dag_file(self) -> str:
        """The text of the file with the DAG that they start."""
        return DAG_FILE.format(imported=self.imported, trigger=self.trigger, count=self.count)


def polling(count: int) -> Watchers:
    """Ours, that poll every 5 s."""
    arguments = f"poll_interval={POLL_SECONDS}, max_poll_interval={POLL_SECONDS}, wake_on_events=False"
    return Watchers(count, OURS, f"Trigger(name, {arguments})")


def listening(count: int, window_seconds: float, poll_interval: float = MAX_POLL_SECONDS) -> Watchers:
    """
    Ours, with event streams, once the polls beneath them are as far apart as they get.

    :param poll_interval: seconds between the first two polls, which double up to 60 s.
    """
    settling, interval = SETTLE_SECONDS, poll_interval
    while interval < MAX_POLL_SECONDS:
        settling, interval = settling + interval, interval * 2
    trigger = f"Trigger(name, poll_interval={poll_interval})"
    return Watchers(count, OURS, trigger, settle_seconds=settling, window_seconds=window_seconds)


def sleeping(count: int) -> Watchers:
    """Watchers that only wake every 5 s: what Airflow itself takes for them."""
    imported = "from benchmarks.sleeping import SleepingTrigger as Trigger"
    return Watchers(count, imported, "Trigger(name)")


def of_queues(count: int, url: str) -> Watchers:
    """
    ``SqsSensorTrigger`` of the amazon provider, every 5 s, without waiting at the queue.

    :param url: of the queues, before their names.
    """
    arguments = f'sqs_queue="{url}/" + name, wait_time_seconds=0, waiter_delay={POLL_SECONDS:.0f}'
    return Watchers(count, THEIRS, f"Trigger({arguments})")


def dags_folder(home: Path, watchers: Watchers) -> Path:
    """A folder with the file of the watchers, if there are any."""
    folder = home / "dags"
    folder.mkdir()
    if watchers.count:
        (folder / "watchers.py").write_text(watchers.dag_file)
    return folder


def triggerer_of(airflow: LocalAirflow) -> int:
    """The process that runs the triggers."""
    return max(airflow.pids("triggerer"))


@dataclass(frozen=True)
class Triggerers:
    """
    Starts one after the other.

    :param service: with an inbox for each watcher.
    :param queues: with a queue for each; None where no watcher is of a queue.
    """

    service: EmulatorServer
    queues: Queues | None = None

    def measure(self, watchers: Watchers, windows: int) -> Seen:
        """What the process takes in which the triggers run."""
        with self.running(watchers) as airflow:
            watch = Watch(triggerer_of(airflow), self._polls_of(watchers))
            for _ in range(windows):
                time.sleep(watchers.window_seconds)
                watch.window()
            return watch.seen()

    @contextlib.contextmanager
    def running(self, watchers: Watchers) -> Iterator[LocalAirflow]:
        """An Airflow in which they wait and have come to rest, with room for an event stream each."""
        connections = {"workflow_default": self.service.connection_json()}
        if self.queues:
            connections["aws_default"] = self.queues.connection
        env = {
            "AIRFLOW__WORKFLOW__MAX_EVENT_STREAMS": str(watchers.count),
            "PYTHONPATH": str(ROOT),  # from which one kind of trigger is imported
        }
        polls = self._polls_of(watchers)
        before = polls()
        with (
            private_folder() as home,
            LocalAirflow(home, dags_folder(home, watchers), connections, quick=False, env=env) as airflow,
        ):
            self._in_time(airflow, lambda: polls() - before >= watchers.count)
            time.sleep(watchers.settle_seconds)
            yield airflow

    def _polls_of(self, watchers: Watchers) -> Callable[[], int]:
        return self.queues.polls if self.queues and watchers.imported == THEIRS else self._listings

    def _listings(self) -> int:
        return self.service.count("list_messages")

    def _in_time(self, airflow: LocalAirflow, begun: Callable[[], bool]) -> None:
        with contextlib.suppress(TimeoutError):
            airflow.api.wait_until(begun, BEGUN_SECONDS, "every watcher has polled")
