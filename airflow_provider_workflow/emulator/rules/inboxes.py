"""The inboxes of the service, and their states (docs/service.md 2.1 and 2.2)."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

from airflow_provider_workflow.emulator.rules.bodies import MAX_INBOX_NAME
from airflow_provider_workflow.emulator.rules.core import Core, Table, atomic
from airflow_provider_workflow.emulator.rules.errors import ServiceError, conflict, invalid_field
from airflow_provider_workflow.emulator.rules.records import Inbox, is_uuid

MADE_UP_SUBSCRIPTION: dict[str, Any] = {
    "app_key": "DemoAPI@1.0.0",
    "action_key": "new_item",
    "inputs": {},
    "connection_id": None,
}
"""The subscription of inboxes that control calls create."""


class Inboxes:
    """
    Creates, finds and changes inboxes.

    There are no timers: states with a duration (``initializing``, ``deleting``) end when the inbox is read.
    """

    def __init__(self, core: Core) -> None:
        self.core = core
        self.on_deleted: list[Callable[[Inbox], None]] = []
        self._inboxes = Table(core, "inbox", Inbox)

    @atomic
    def create(self, name: str | None, subscription: dict[str, Any], url: str | None = None) -> Inbox:
        """
        Create an inbox, in the state ``initializing``.

        :raises ServiceError: 409 when the name is taken.
        """
        if name is not None and self._named(name):
            raise conflict(f"An inbox named {name!r} exists already.")
        inbox = Inbox(str(uuid.uuid4()), self.core.clock.now(), name, url, subscription)
        return self._initialize(inbox)

    @atomic
    def ensure(self, name: str, subscription: dict[str, Any], url: str | None = None) -> tuple[Inbox, bool]:
        """
        Find the inbox of that name and subscription, or create it.

        :return: the inbox, and whether it was created. A notification URL that differs is left as it
            is (assumed).
        :raises ServiceError: 409 when the name has another subscription.
        """
        inbox = self._named(name)
        if inbox is None:
            return self.create(name, subscription, url), True
        if inbox.subscription != subscription or inbox.status == "deleting":
            raise conflict(f"An inbox named {name!r} exists with a different subscription configuration.")
        return inbox, False

    @atomic
    def get(self, inbox_id: str) -> Inbox:
        """
        Find an inbox by its id.

        :raises ServiceError: 404 for an unknown or deleted one.
        """
        inbox = self._inboxes.get(inbox_id.lower())  # UUIDs have no case
        if inbox is None or not self._update_status(inbox):
            raise ServiceError(404, "not_found", "Inbox not found.")
        return inbox

    @atomic
    def find(self, id_or_name: str) -> Inbox:
        """Find an inbox by its id or its name, for control calls."""
        return self._named(id_or_name) or self.get(id_or_name)

    @atomic
    def page(
        self, limit: int, offset: int, status: str | None = None, name: str | None = None
    ) -> tuple[int, list[Inbox]]:
        """
        List inboxes.

        :return: the number of matching inboxes, and those of this page.
        """
        inboxes = [
            inbox
            for inbox in list(self._inboxes.values())
            if self._update_status(inbox) and status in (None, inbox.status) and name in (None, inbox.name)
        ]
        if self.core.settings.list_order == "newest":
            inboxes.reverse()
        return len(inboxes), inboxes[offset : offset + limit]

    @atomic
    def update(self, inbox_id: str, **changes: Any) -> Inbox:
        """Change an inbox; only its ``notification_url`` can change."""
        inbox = self.get(inbox_id)
        inbox.notification_url = changes.get("notification_url", inbox.notification_url)
        return self._inboxes.save(inbox.id, inbox)

    @atomic
    def delete(self, inbox_id: str) -> Inbox:
        """
        Delete an inbox with its messages.

        :raises ServiceError: 409 when it is being deleted.
        """
        inbox = self.get(inbox_id)
        if inbox.status == "deleting":
            raise conflict("The inbox is being deleted.")
        self._enter(inbox, "deleting", None, self.core.settings.deleting_seconds, "deleted")
        self._update_status(inbox)
        self.core.announce(None)
        return inbox

    @atomic
    def pause(self, inbox_id: str) -> Inbox:
        """Pause an active inbox."""
        inbox = self.get(inbox_id)
        if inbox.status != "active":
            raise conflict(f"An inbox that is {inbox.status} cannot be paused.")
        return self._enter(inbox, "paused", "user")

    @atomic
    def resume(self, inbox_id: str) -> Inbox:
        """Resume a paused inbox; it is ``initializing`` for the time in the settings."""
        inbox = self.get(inbox_id)
        if inbox.status != "paused":
            raise conflict(f"An inbox that is {inbox.status} cannot be resumed.")
        self._initialize(inbox)
        self._update_status(inbox)
        return inbox

    @atomic
    def force(self, inbox_id: str, status: str, paused_reason: str | None = None) -> Inbox:
        """Set the state of an inbox, regardless of the rules (control)."""
        return self._enter(self.get(inbox_id), status, paused_reason)

    @atomic
    def open(self, name_or_id: str) -> Inbox:
        """
        Find an inbox, or create it with that name, active at once (control).

        :raises ServiceError: 404 for an unknown id, 400 for a name that the service would not accept.
        """
        try:
            return self.find(name_or_id)
        except ServiceError:
            if is_uuid(name_or_id):
                raise
            if not name_or_id.strip() or len(name_or_id) > MAX_INBOX_NAME:
                reason = f"must have 1 to {MAX_INBOX_NAME} characters, one of them not blank."
                raise invalid_field("name", reason) from None
            return self._enter(self.create(name_or_id, dict(MADE_UP_SUBSCRIPTION)), "active", None)

    def count(self, inbox: Inbox, **by: int) -> None:
        """Add to the counters of an inbox; called inside the atomic section."""
        for name, number in by.items():
            inbox.counters[name] += number
        self._inboxes.save(inbox.id, inbox)

    def _named(self, name: str) -> Inbox | None:
        for inbox in list(self._inboxes.values()):
            if inbox.name == name and self._update_status(inbox):
                return inbox
        return None

    def _initialize(self, inbox: Inbox) -> Inbox:
        return self._enter(inbox, "initializing", None, self.core.settings.initializing_seconds, "active")

    def _enter(
        self,
        inbox: Inbox,
        status: str,
        paused_reason: str | None,
        seconds: float = 0,
        following: str | None = None,
    ) -> Inbox:
        """
        Set the state of an inbox.

        :param following: the state after so many seconds; None if this one has no end.
        """
        now = self.core.clock.now()
        inbox.status, inbox.paused_reason = status, paused_reason
        inbox.paused_at = now if status == "paused" else None
        inbox.changes_at = now + seconds if following else None
        inbox.changes_to = following
        return self._inboxes.save(inbox.id, inbox)

    def _update_status(self, inbox: Inbox) -> bool:
        """End a state whose duration has passed; return whether the inbox still exists."""
        if inbox.changes_at is None or self.core.clock.now() < inbox.changes_at:
            return True
        if inbox.changes_to == "deleted":
            self._inboxes.forget(inbox.id)
            for listener in self.on_deleted:
                listener(inbox)
            return False
        self._enter(inbox, "active", None)
        return True
