"""What the tests of asset watchers have in common: DAG files of their own, kills at random, an account."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from threading import Thread
from typing import Any

from tests.e2e.stage import Inbox, Stage


@dataclass(frozen=True)
class Account:
    """
    What became of the messages of one test.

    :param published: messages that were put.
    :param events: asset events that Airflow stored.
    :param runs: runs that worked on a message, one counted for each message that it worked on.
    :param acknowledged: messages that are gone from the inbox.
    :param lost: messages that no run worked on.
    :param duplicates: runs beyond the first of a message.
    """

    published: int
    events: int
    runs: int
    acknowledged: int
    lost: int
    duplicates: int

    @classmethod
    def of(cls, ids: Collection[str], events: int, worked_on: Iterable[str], acknowledged: int) -> Account:
        """
        :param ids: of the messages that were put.
        :param worked_on: ids of the messages that runs worked on, once for each run.
        """
        times = Counter(worked_on)
        return cls(
            published=len(ids),
            events=events,
            runs=times.total(),
            acknowledged=acknowledged,
            lost=sum(times[each] == 0 for each in ids),
            duplicates=sum(count - 1 for count in times.values()),
        )


def account(stage: Stage, inbox: Inbox, ids: Collection[str], asset: str, dag_id: str = "target") -> Account:
    """
    The account of messages each of which was to start a run of a DAG.

    :param asset: name of the asset that is watched.
    """
    worked_on = [run["conf"]["message"]["id"] for run in stage.runs_of(inbox, dag_id)]
    return Account.of(ids, len(events_of(stage, asset)), worked_on, inbox.counts["acked"])


def table(accounts: Mapping[str, Account]) -> str:
    """Accounts as lines of text, each under a title."""
    names = [field.name for field in fields(Account)]
    width = max(len(title) for title in accounts)
    lines = [" " * width + "".join(f"{name:>14}" for name in names)]
    for title, each in accounts.items():
        lines.append(f"{title:{width}}" + "".join(f"{number:>14}" for number in astuple(each)))
    return "\n".join(lines)


def events_of(stage: Stage, asset: str) -> list[dict[str, Any]]:
    """The events of an asset, oldest first; ``extra["payload"]`` is what the trigger's event carried."""
    return stage.airflow.api.asset_events(asset)


@contextmanager
def dag_file(stage: Stage, folder: Path, name: str, text: str, *dag_ids: str) -> Iterator[None]:
    """
    Add a DAG file for as long as a test takes: watchers know their inbox when the file is parsed.

    :param folder: the fixture ``dags_folder``.
    :param name: of the file, without its ending.
    :param dag_ids: the DAGs in it, which are waited for.
    """
    path = folder / f"{name}.py"
    path.write_text(text)
    try:
        stage.airflow.wait_for_dags(dag_ids)
        yield
    finally:
        path.unlink()


def pause(stage: Stage, folder: Path, name: str, *, paused: bool = True) -> None:
    """
    Pause the DAG of a file that a test added, or unpause it, and have the file parsed at once.

    Only where the file is parsed, Airflow takes away the watcher of a DAG that is paused, or brings it back.
    """
    change = stage.airflow.api.pause if paused else stage.airflow.api.unpause
    change(name)
    (folder / f"{name}.py").touch()


def kill_triggerer(stage: Stage) -> None:
    """``kill -9`` the triggerer with all of its processes."""
    stage.airflow.kill("triggerer", tree=True)


def restart_triggerer(stage: Stage) -> None:
    stage.airflow.restart("triggerer")
    stage.airflow.wait_until_healthy()


@contextmanager
def publishing(inbox: Inbox, count: int, seed: int, longest_pause: float) -> Iterator[list[str]]:
    """
    Put messages beside whatever the test does: in groups of 1 to 9, with pauses between them.

    :param longest_pause: seconds between two groups at most.
    :return: the ids of the messages; they are all there when the context is left.
    """
    chance = random.Random(seed)
    ids: list[str] = []

    def publish() -> None:
        while len(ids) < count:
            size = min(chance.randint(1, 9), count - len(ids))
            ids.extend(inbox.put(*[{"n": len(ids) + n} for n in range(size)]))
            time.sleep(chance.uniform(0.0, longest_pause))

    thread = Thread(target=publish, name="publisher", daemon=True)
    thread.start()
    try:
        yield ids
    finally:
        thread.join()
