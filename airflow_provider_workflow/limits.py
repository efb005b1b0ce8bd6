"""How much a task leases at a time, and for how long."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_workflow.client.arguments import ANY_NUMBER, LEASE_LIMIT, require_int

TASK_LEASE_SECONDS = (60, 3600)
"""No run is started in the last 30 s of a lease, so a shorter lease would leave no time."""
DEAD_LETTER_AFTER = (1, 4)
"""The service delivers a message about five times: after the fourth delivery there is about one left."""
PROBE_SECONDS = 3600
"""Length of a lease that probes a target after a failed try: a target that stays broken for hours costs a
waiting message about one delivery per hour."""


@dataclass(frozen=True)
class Limits:
    """
    How much is leased at a time.

    :param lease_limit: messages per lease, 1 to 100.
    :param lease_seconds: length of a lease, 60 to 3600 s.
    :param max_messages: messages in all, 1 or more; None for 10,000.
    :param max_unfinished_runs: runs that each target may have queued and running; None for any number.
    :raises ValueError: one is out of range; the text names it and the range.
    """

    lease_limit: int = 100
    lease_seconds: int = 300
    max_messages: int | None = None
    max_unfinished_runs: int | None = None

    def __post_init__(self) -> None:
        require_int("lease_limit", self.lease_limit, LEASE_LIMIT)
        require_int("lease_seconds", self.lease_seconds, TASK_LEASE_SECONDS)
        if self.max_messages is not None:
            require_int("max_messages", self.max_messages, ANY_NUMBER)
        if self.max_unfinished_runs is not None:
            require_int("max_unfinished_runs", self.max_unfinished_runs, ANY_NUMBER)

    def of_returned(self, attempt: int) -> int:
        """
        Messages of the lease of a sensor that returns them: each failed try halves it, as its size may have
        killed the process.

        :param attempt: try of the task, 1 or more.
        """
        return max(1, min(self.lease_limit, self.max_messages or self.lease_limit) >> (attempt - 1))
