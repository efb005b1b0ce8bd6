"""How much may be leased and started at a time: nothing is leased in order to be released."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_workflow import clock

if TYPE_CHECKING:
    from airflow_provider_workflow.dispatch.lease import HeldLease
    from airflow_provider_workflow.dispatch.runs import Runs

LEASE_SECONDS = (60, 3600)
"""No run is started in the last 30 s of a lease, so a shorter one would leave no time to work."""
PILOT_SECONDS = 3600
"""Length of the first lease, of one message, where an earlier try found the target DAG broken."""
MOST_MESSAGES = 10_000
ROOM_CHECK_SECONDS = 2.0


@dataclass(frozen=True)
class Limits:
    """
    How much is leased at a time.

    :param lease_limit: messages per lease, 1 to 100.
    :param lease_seconds: length of a lease, 60 to 3600 s.
    :param max_messages: messages in all; None for no limit of its own.
    :param max_unfinished_runs: runs that each target may have queued and running; None for any number.
    """

    lease_limit: int = 100
    lease_seconds: int = 300
    max_messages: int | None = None
    max_unfinished_runs: int | None = None

    @property
    def most_messages(self) -> int:
        """Messages that one task takes in all."""
        return min(MOST_MESSAGES, self.max_messages or MOST_MESSAGES)

    @property
    def first_lease(self) -> int:
        """Messages of a lease while nothing was taken yet."""
        return min(self.lease_limit, self.most_messages)


@dataclass
class Room:
    """
    How many more runs the target DAGs may have.

    :param limits: what was asked for.
    :param runs: where runs are counted.
    :param dag_ids: the targets; the fullest of them decides.
    """

    limits: Limits
    runs: Runs
    dag_ids: Iterable[str]
    _left: int = 0

    def for_messages(self, handled: int) -> int:
        """
        How many messages may be leased now.

        :param handled: those that something became of so far.
        """
        room = self.limits.most_messages - handled
        if room > 0 and self.limits.max_unfinished_runs is not None:
            self._left = self._ask()
            room = min(room, self._left)
        return max(0, room)

    def comes_within(self, lease: HeldLease) -> bool:
        """Wait for room as long as the lease allows; without a limit on runs there always is."""
        while lease.seconds_left() > 0:
            if self.limits.max_unfinished_runs is None or self._left > 0:
                return True
            self._left = self._ask()
            if self._left <= 0:
                clock.sleep(ROOM_CHECK_SECONDS)
        return False

    def used(self) -> None:
        """A run was started."""
        self._left -= 1

    def _ask(self) -> int:
        most = self.limits.max_unfinished_runs or 0
        return min(most - self.runs.unfinished(dag_id) for dag_id in self.dag_ids)
