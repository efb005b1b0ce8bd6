"""Unenrolling users from promotions (service facts 8)."""

from __future__ import annotations

from airflow_provider_workflow.emulator.core import Core, atomic


class Promotions:
    """
    The enrollments that were ended. Every other id is an enrollment, so that none has to be made up.

    :param core: clock, settings, journal.
    """

    def __init__(self, core: Core) -> None:
        self.core = core
        self.unenrolled: list[str] = []

    def restore(self) -> None:
        """Take up what the journal kept."""
        self.unenrolled = [str(key) for key, _ in self.core.journal.load("unenrolled")]

    def clear(self) -> None:
        """Enroll everybody again."""
        self.unenrolled.clear()

    @atomic
    def unenroll(self, enrollment_id: str) -> None:
        """End an enrollment; once more changes nothing."""
        if enrollment_id not in self.unenrolled:
            self.unenrolled.append(enrollment_id)
            self.core.journal.save("unenrolled", enrollment_id, True)
