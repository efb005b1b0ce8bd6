"""The messages of the demo: what is put, what became of each, and the verdict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from airflow_provider_workflow.dispatch.runs import run_id_of
from airflow_provider_workflow.emulator.server import EmulatorServer
from tools.airflow_api import AirflowAPI, Json

ITEMS = ("apples", "pears", "plums", "cherries", "quinces")
STEPS = ("put", "leased", "run_started", "acknowledged", "run_succeeded")
FINAL = frozenset({"acked", "quarantined"})
"""Statuses after which a message is not delivered any more."""


def order(number: int) -> Json:
    """The payload of a message."""
    return {"order": number, "item": ITEMS[number % len(ITEMS)], "crates": 1 + number % 4}


@dataclass
class Row:
    """A message: its payload, and the times of its steps in epoch seconds, None for future ones.

    :param deliveries: how often it was leased.
    """

    put: float
    payload: Any = None
    deliveries: int = 0
    leased: float | None = None
    run_started: float | None = None
    run_succeeded: float | None = None
    acknowledged: float | None = None

    @property
    def is_done(self) -> bool:
        """Whether its run succeeded, and it is acknowledged."""
        return self.run_succeeded is not None and self.acknowledged is not None

    def seconds(self, step: str) -> float | None:
        """Seconds from put to a step; None for a future step."""
        moment = getattr(self, step)
        return None if moment is None else max(0.0, moment - self.put)


class Messages:
    """All messages of an inbox and their runs.

    :param service: the emulator.
    :param api: API of Airflow.
    """

    def __init__(self, service: EmulatorServer, api: AirflowAPI, inbox: str, handler: str) -> None:
        self.rows: dict[str, Row] = {}
        self._service, self._api, self._inbox, self._handler = service, api, inbox, handler

    def put(self, *payloads: Any) -> None:
        """Put messages into the inbox."""
        now = self._service.store.clock.now()
        ids = self._service.put(self._inbox, *payloads)
        self.rows |= {
            message_id: Row(now, payload) for message_id, payload in zip(ids, payloads, strict=True)
        }

    def look(self) -> None:
        """Update all rows from the service and from Airflow."""
        runs = {run["dag_run_id"]: run for run in self._api.dag_runs(self._handler)}
        summary = self._service.summary(self._inbox)
        for message in summary["messages"]:
            row = self.rows.setdefault(message["id"], Row(message["created_at"]))
            row.leased, row.acknowledged = message["leased_at"], message["acked_at"]
            row.deliveries = message["lease_count"]
            run = runs.get(run_id_of(message["id"], summary["inbox"]["id"]))
            if run is not None:
                row.run_started = epoch(run["queued_at"])
                row.run_succeeded = epoch(run["end_date"]) if run["state"] == "success" else None

    def all_done(self) -> bool:
        """Whether there are messages, and all are done."""
        return bool(self.rows) and all(row.is_done for row in self.rows.values())

    def totals(self) -> str:
        """The numbers of messages by step, in one line."""
        numbers = {step: sum(getattr(row, step) is not None for row in self.rows.values()) for step in STEPS}
        return ", ".join(f"{step.replace('_', ' ')} {number}" for step, number in numbers.items())


@dataclass(frozen=True)
class Verdict:
    """What became of the messages.

    :param text: the numbers of messages and of their runs, in a line.
    :param holds: whether no message was lost, and none was started twice.
    :param complete: whether each message has exactly one run, which succeeded.
    """

    text: str
    holds: bool
    complete: bool

    @classmethod
    def of(cls, messages: Collection[Json], runs: Collection[Json], kills: int | None = None) -> Verdict:
        """Count.

        :param messages: of the inbox, as the emulator describes them.
        :param runs: of the target DAG, as Airflow's API describes them; those without a message, which a
            user started, do not count.
        :param kills: processes that were killed; None if the demo kills none.
        """
        with_message = [run for run in runs if ((run["conf"] or {}).get("message") or {}).get("id")]
        started_ids = Counter(run["conf"]["message"]["id"] for run in with_message)
        without_run = [message["status"] for message in messages if message["id"] not in started_ids]
        lost_count = sum(status in FINAL for status in without_run)
        twice, waiting_count = len(with_message) - len(started_ids), len(without_run) - lost_count
        unfinished_count = sum(run["state"] != "success" for run in with_message)
        text = f"{len(messages)} messages, {len(with_message)} runs, {lost_count} lost, {twice} twice"
        if kills is not None:
            text += f", {kills} kills"
        if waiting_count:
            text += f"; {waiting_count} in flight, not lost: a leased message starts when its lease ends"
        if unfinished_count:
            text += f"; {unfinished_count} of the runs not successful so far"
        holds = lost_count == twice == 0
        return cls(
            text,
            holds,
            holds and waiting_count == unfinished_count == 0 and len(started_ids) == len(messages),
        )


def epoch(moment: str) -> float:
    """Seconds since 1970 of a moment as Airflow's API and the service write it."""
    return datetime.fromisoformat(moment.replace("Z", "+00:00")).timestamp()
