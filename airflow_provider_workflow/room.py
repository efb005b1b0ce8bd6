"""How much may be leased and started at a time: nothing is leased in order to be released."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from airflow_provider_workflow import clock
from airflow_provider_workflow.leases import HeldLease
from airflow_provider_workflow.options import Limits
from airflow_provider_workflow.runs import Runs

ROOM_CHECK_SECONDS = 2.0


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
