"""How much a task leases at a time."""

from __future__ import annotations

from dataclasses import dataclass

LEASE_SECONDS = (60, 3600)
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
    """

    lease_limit: int = 100
    lease_seconds: int = 300
    max_messages: int | None = None
    max_unfinished_runs: int | None = None

    @property
    def first_lease(self) -> int:
        """Messages of the first lease of a sensor that starts no runs."""
        return min(self.lease_limit, self.max_messages or self.lease_limit)
