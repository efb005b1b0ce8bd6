"""What became of every message: the one table that decides."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from tabulate import tabulate  # type: ignore[import-untyped]

from airflow_provider_workflow.dispatch.dead_letters import message_of
from airflow_provider_workflow.dispatch.payloads import payload_of
from tests.crash.poison import KILLS, PREFIX

Json = dict[str, Any]


@dataclass
class Account:
    """
    What became of the messages of one recipe.

    :param recipe: its name.
    :param put: when each message was put (epoch seconds), by its id.
    :param payloads: their payloads.
    :param dead_letters: those that have a run of the dead-letter DAG.
    :param sound_dead_letters: those of them that no DAG rejects and that end no process.
    :param changed: those whose payload in that run is another one.
    :param is_same: by message and stored object whether that is its payload: each is read once.
    """

    recipe: str
    put: dict[str, float]
    payloads: dict[str, Any] = field(default_factory=dict)
    dead_letters: int = 0
    sound_dead_letters: int = 0
    changed: int = 0
    is_same: dict[tuple[str, str], bool] = field(default_factory=dict)
    done: Counter[str] = field(default_factory=Counter)
    unfinished: int = 0
    waiting: int = 0
    quarantined: int = 0
    redeliveries: int = 0
    most_attempts: int = 0
    longest_delay: float = 0.0

    @property
    def lost(self) -> int:
        """Messages for which nothing was done."""
        return len(self.put.keys() - self.done.keys())

    @property
    def duplicates(self) -> int:
        """What was done more than once for a message."""
        return sum(self.done.values()) - len(self.done)

    def count_runs(self, runs: Collection[Json], *, once_per_key: bool = False) -> None:
        """
        Count the runs of the target DAG that succeeded; another state is unfinished work.

        :param once_per_key: whether a run is that of all messages with the same ``key`` in their payload.
        """
        ids = defaultdict(list)
        for message_id, payload in self.payloads.items():
            ids[_key_of(payload) if once_per_key else message_id].append(message_id)
        for run in runs:
            message = (run["conf"] or {}).get("message") or {}
            if message.get("id") not in self.put:
                continue
            if run["state"] != "success":
                self.unfinished += 1
                continue
            payload = self.payloads[message["id"]]
            self.done.update(ids[_key_of(payload) if once_per_key else message["id"]])
            self.changed += not self._has_payload(message)
            delay = datetime.fromisoformat(run["queued_at"]).timestamp() - self.put[message["id"]]
            self.longest_delay = max(self.longest_delay, delay)

    def count_dead_letters(self, runs: Collection[Json]) -> None:
        """Count the runs of the dead-letter DAG; each is what was done for its message, as a run would be."""
        for run in runs:
            message = message_of(run["conf"])
            if message["id"] not in self.put:
                continue
            if run["state"] != "success":
                self.unfinished += 1
                continue
            self.done[message["id"]] += 1
            self.dead_letters += 1
            payload = self.payloads[message["id"]]
            is_killer = isinstance(payload, dict) and KILLS in payload
            self.sound_dead_letters += not (is_killer or message["id"].startswith(PREFIX))
            self.changed += not is_payload(message["payload"], payload)

    def _has_payload(self, message: Json) -> bool:
        """Whether the message of a run has the payload that was put."""
        place = message["id"], str(message.get("payload_object"))
        if "payload_object" not in message or place not in self.is_same:
            self.is_same[place] = is_payload(payload_of(message), self.payloads[message["id"]])
        return self.is_same[place]

    def count_deliveries(self, messages: Iterable[Json]) -> None:
        """Count messages as DAGs were given them, one or more times."""
        self.done.update(message["id"] for message in messages)

    def count_leases(self, messages: Collection[Json]) -> None:
        """Count what the service tells about the messages, doubled deliveries included."""
        for message in messages:
            self.waiting += message["status"] == "available"
            self.quarantined += message["status"] == "quarantined"
            self.redeliveries += max(0, message["lease_count"] - 1)
            self.most_attempts = max(self.most_attempts, message["lease_count"])


def is_payload(received: Any, sent: Any) -> bool:
    """Whether a DAG gets a payload as it was put; one that is nested too deep for Airflow is its text."""
    is_text = isinstance(received, str) and not isinstance(sent, str)
    return bool((json.loads(received) if is_text else received) == sent)


def _key_of(payload: Any) -> Any:
    return payload.get("key") if isinstance(payload, dict) else None


def table(accounts: Collection[Account]) -> str:
    """The accounts as lines of text."""
    rows = [
        {
            "recipe": account.recipe,
            "messages": len(account.put),
            "lost": account.lost,
            "duplicates": account.duplicates,
            "dead letters": account.dead_letters,
            "of them sound": account.sound_dead_letters,
            "changed": account.changed,
            "unfinished": account.unfinished,
            "quarantined": account.quarantined,
            "redeliveries": account.redeliveries,
            "most attempts": account.most_attempts,
            "longest delay (s)": round(account.longest_delay),
        }
        for account in accounts
    ]
    return str(tabulate(rows, headers="keys", tablefmt="plain"))
