"""What a process holds and knows. It follows from ``docs/promise.md``, not from the code of the package."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.simulation.keys import business_key
from tests.simulation.plan import ONCE_PER

if TYPE_CHECKING:
    from airflow_provider_workflow.client.errors import WorkflowError
    from tests.simulation.scheduler import Process

MARGIN_SECONDS = 30.0
MAX_PROBES = 128
PROBE_SECONDS = 3600
Key = tuple[str, str]
"""The ids of inbox and message."""


def key_of(conf: dict[str, Any]) -> Key:
    """The ids of inbox and message in the conf of a run, or of a dead letter."""
    message = conf.get("message")
    return conf["inbox_id"], message["id"] if message else conf["message_id"]


def run_id_of_key(key: Any, inbox_id: str) -> str:
    """The run id of a business key, as ``docs/promise.md`` has it."""
    text = json.dumps([ONCE_PER, business_key(key)])
    digest = hashlib.sha256(f"{len(inbox_id)}:{inbox_id}{text}".encode()).hexdigest()
    return f"workflow__key__{digest}"


def run_id_of(message_id: str, inbox_id: str, prefix: str = "workflow__") -> str:
    """The run id of a message, as ``docs/promise.md`` has it."""
    digest = hashlib.sha256(f"{len(inbox_id)}:{inbox_id}{message_id}".encode()).hexdigest()
    return f"{prefix}{message_id}__{digest[:16]}"


@dataclass(eq=False)
class Lease:
    """
    A lease, and what became of its messages.

    :param counts: delivery count of each message. A message that it has twice has one count here, and both of
        its deliveries in ``deliveries``.
    :param known_until: when it expires at the earliest, as far as the process knows.
    :param is_doubtful: whether the process was frozen while it leased; it then does not know the end.
    :param has_twice: whether it has two deliveries of a message.
    :param attempted: messages whose run was requested or looked for, or whose payload could not be written;
        ``started``: whose run was requested.
    :param is_at_work: whether a process that starts runs has it; a trigger only leases.
    :param is_short: whether it had nearly expired when a process that starts runs got it.
    :param refused: messages whose run Airflow rejected, or could not start.
    :param unended: messages for which an acknowledgement or release failed.
    :param released: messages whose release was requested.
    :param undecided: messages that could not become dead letters: Airflow or the dead-letter DAG failed, or a
        check used up the lease.
    """

    lease_id: str
    inbox_id: str
    process: Process
    seconds: float
    until: float
    counts: dict[str, int]
    deliveries: set[tuple[str, int]]
    attempted: set[str] = field(default_factory=set)
    started: set[str] = field(default_factory=set)
    unended: set[str] = field(default_factory=set)
    refused: set[str] = field(default_factory=set)
    known_until: float = 0.0
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
class Knowledge:
    """
    What a process knows by the rules of ``docs/promise.md``.

    :param dag_ids: its targets.
    :param attempt: number of its try, from 1; each failed poll counts as one.
    :param is_trigger: whether it only leases.
    :param targets_started: those of which it has started a run in this poll.
    :param targets_found: those of which it found a run in this poll, and that rejected nothing after that.
    :param rejected_by: the target of each rejection of this poll, and whether the message was new.
    :param faulty: a start that Airflow answered with 5xx, until the process knows whether the run exists.
    :param failed: whether its target failed in this poll.
    :param troubled: whether any request to Airflow failed in this poll.
    :param source_in_trouble: whether the service rejected its credentials, or did not know its inbox.
    :param polls: number of its polls.
    :param starting: lease, message and DAG of the latest start.
    :param owes_acknowledgement: whether an acknowledgement failed, and it went on without another one.
    :param has_checked_store: whether it has written to the payload store in this poll; ``store_failed``:
        whether a write failed; ``has_failed_write``: whether one failed in any poll.
    :param dead_letter: lease and message of the latest start of a dead letter, and its time.
    """

    dag_ids: Sequence[str]
    attempt: int = 1
    is_trigger: bool = False
    targets_started: set[str] = field(default_factory=set)
    targets_found: set[str] = field(default_factory=set)
    rejected_by: list[tuple[str, bool]] = field(default_factory=list)
    faulty: tuple[Lease, str, str] | None = None
    failed: bool = False
    troubled: bool = False
    source_in_trouble: bool = False
    leases_before: int = 0
    polls: int = 0
    starting: tuple[Lease, str, str] | None = None
    starting_since: float = 0.0
    dead_letter: tuple[Lease, str, float] | None = None
    leases: list[Lease] = field(default_factory=list)
    failed_acks: dict[tuple[str, str], WorkflowError] = field(default_factory=dict)
    has_failed_ack: bool = False
    owes_acknowledgement: bool = False
    has_checked_store: bool = False
    store_failed: bool = False
    has_failed_write: bool = False

    def has_checked(self, now: float) -> None:
        """Note the leases that a check has used up: none of their messages can be decided about."""
        for lease in self.leases:
            if now >= lease.known_until - MARGIN_SECONDS:
                lease.undecided.update(lease.counts)

    def went_on(self) -> None:
        """It leases or starts more, whether or not an acknowledgement has failed."""
        self.owes_acknowledgement = self.owes_acknowledgement or bool(self.failed_acks)

    @property
    def is_probing(self) -> bool:
        """Whether it leases one message at a time."""
        proven_targets = self.targets_started | self.targets_found
        return not (proven_targets if self.attempt == 1 else proven_targets.issuperset(self.dag_ids))

    @property
    def unproven(self) -> int:
        """Rejections of this poll that count against its probes."""
        rejecting_dags = [dag_id for dag_id, is_new in self.rejected_by if is_new or self.attempt == 1]
        return sum(dag_id not in self.targets_started for dag_id in rejecting_dags)

    @property
    def probes(self) -> int:
        """How many unproven rejections it may meet before it stops leasing."""
        return int(min(MAX_PROBES, 2 ** min(self.attempt - 1, 7)))
