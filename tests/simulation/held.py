"""What a process holds and knows, by the rules of ``docs/promise.md``, however the package remembers it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow_provider_workflow.client.errors import WorkflowError
    from tests.simulation.scheduler import Process

MARGIN_SECONDS = 30.0
MOST_REJECTED_IN_A_ROW = 20
Key = tuple[str, str]
"""The ids of inbox and message."""


def key_of(conf: dict[str, Any]) -> Key:
    """The ids of inbox and message in the conf of a run, or of a dead letter."""
    message = conf.get("message")
    return conf["inbox_id"], message["id"] if message else conf["message_id"]


def run_id_of(message_id: str, inbox_id: str) -> str:
    """The run id of a message, as ``docs/promise.md`` has it."""
    return f"workflow__{message_id}__{hashlib.sha256(inbox_id.encode()).hexdigest()[:8]}"


@dataclass(eq=False)
class Held:
    """
    A lease, as the rules see it.

    :param counts: delivery count of each message.
    :param answered: whether a process knows of it.
    :param known_until: the earliest time at which it expires, as far as the process knows.
    :param is_doubtful: whether a process was frozen while it leased, so that it does not know the end.
    :param has_twice: whether it has two deliveries of a message.
    :param attempted: messages whose run was requested.
    :param is_at_work: whether a process that starts runs has it.
    :param is_short: whether it nearly expired before such a process had it.
    :param refused: messages whose run Airflow rejected, or that a process without proof could not start.
    :param unended: messages for which an acknowledgement or release failed.
    :param released: messages whose release was requested.
    :param undecided: messages that could not become dead letters, as Airflow or the dead-letter DAG failed.
    :param high: messages with a high delivery count that have a run, and no acknowledgement was sent for.
    """

    lease_id: str
    inbox_id: str
    process: Process
    seconds: float
    until: float
    counts: dict[str, int]
    answered: bool = False
    attempted: set[str] = field(default_factory=set)
    unended: set[str] = field(default_factory=set)
    high: set[str] = field(default_factory=set)
    refused: set[str] = field(default_factory=set)
    known_until: float = 0.0
    while_broken: bool = False
    is_handed_off: bool = False
    is_doubtful: bool = False
    has_twice: bool = False
    is_late: bool = False
    is_at_work: bool = False
    is_short: bool = False
    ended: bool = False
    acknowledged: set[str] = field(default_factory=set)
    released: set[str] = field(default_factory=set)
    undecided: set[str] = field(default_factory=set)


@dataclass(eq=False)
class Seen:
    """
    What a process knows, by the rules of ``docs/promise.md``.

    :param dag_ids: its targets.
    :param careful: whether an earlier try found them broken.
    :param unknown: whether it does not know, so that its pilot is leased for an hour.
    :param old: whether an earlier version of the package leases for it, without a pilot.
    :param is_trigger: whether it leases only.
    :param looks_again: whether it looks for the run of a message that was rejected.
    :param read_at: when it read what earlier processes stored, if it has started no run since.
    :param started: targets of which it has started a run.
    :param found: whether it has found a run.
    :param failed: whether its target failed in this poll; ``troubled``: whether any request to Airflow did.
    :param spent: deliveries that it spent without proof while a target was broken.
    :param polls: number of its polls.
    :param allowed: deliveries that it may spend so.
    :param doubts: rejections of this poll without proof of whose fault they are.
    :param starting: lease, message and DAG of the latest start.
    :param dead_letter: lease and message of the latest start of a dead letter, and its time.
    """

    dag_ids: Sequence[str]
    careful: bool = False
    unknown: bool = False
    forgets: bool = False
    old: bool = False
    is_trigger: bool = False
    looks_again: bool = False
    read_at: float = 0.0
    started: set[str] = field(default_factory=set)
    found: bool = False
    failed: bool = False
    troubled: bool = False
    rejected_in_a_row: int = 0
    ack_failed_for_good: bool = False
    left_until: float = float("inf")
    polls: int = 0
    spent: int = 0
    allowed: int = 0
    doubts: int = 0
    starting: tuple[Held, str, str] | None = None
    dead_letter: tuple[Held, str, float] | None = None
    looked: tuple[tuple[str, str], float] = (("", ""), 0.0)
    leases: list[Held] = field(default_factory=list)
    failed_acks: dict[tuple[str, str], WorkflowError] = field(default_factory=dict)

    @property
    def proven(self) -> bool:
        """Whether it may lease more than the pilot."""
        if self.careful:
            return self.started.issuperset(self.dag_ids)
        return bool(self.started) or self.found
