"""An inbox by its name: created or found, and waited for."""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import TYPE_CHECKING

from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_workflow import clock
from airflow_provider_workflow.client.errors import ConflictError, NotFoundError

if TYPE_CHECKING:
    from airflow_provider_workflow.client import types
    from airflow_provider_workflow.client.wire import Answer
    from airflow_provider_workflow.hooks.workflow import WorkflowHook

log = logging.getLogger(__name__)


class InboxNameTakenError(AirflowFailException):
    """
    The name belongs to an inbox with another subscription (docs/service.md 11.2); no retry changes that.

    :param wanted: the subscription that was given.
    :param existing: the inbox that has the name.
    """

    def __init__(self, name: str, wanted: types.Subscription, existing: types.Inbox) -> None:
        from airflow_provider_workflow.client.wire import plain

        subscription = existing.get("subscription")
        has = json.dumps(subscription, sort_keys=True) if subscription else "not shown by the service"
        super().__init__(
            f"The name {name!r} belongs to inbox {plain(existing['id'])}, which has another subscription."
            f" Requested: {json.dumps(wanted, sort_keys=True)}; existing: {has}."
            " Choose another name, or delete that inbox first."
        )


@dataclass
class NamedInbox:
    """
    The desired state of an inbox, and the calls that reach it; all of them are idempotent.

    :param name: up to 100 characters.
    :param notification_url: None leaves that of an existing inbox unchanged.
    :param created: whether ``ensured`` has created it; False if the answer to the creation was lost.
    """

    hook: WorkflowHook
    name: str
    subscription: types.Subscription
    notification_url: str | None
    created: bool = field(default=False, init=False)

    def ensured(self) -> types.Inbox:
        """
        The inbox of this name, in any state; the one that is being deleted if it still has the name.

        :raises InboxNameTakenError: it has another subscription.
        :raises ConflictError: the name is taken by an inbox that the service does not show.
        """
        from airflow_provider_workflow.client.inboxes import DELETING, FAILED

        url = self.notification_url
        try:
            inbox = self._ensure()
        except ConflictError:
            existing = self._existing()
            if existing is None:
                raise
            if existing["status"] == DELETING:
                return existing
            raise InboxNameTakenError(self.name, self.subscription, existing) from None
        if url is None or inbox.get("notification_url") == url or inbox["status"] in (FAILED, DELETING):
            return inbox
        # Without the URL, which may be a secret.
        log.info("Inbox %s: notification_url was changed", self.name)
        return self.hook.update_inbox(inbox["id"], url)

    def wait_until(
        self, is_done: Callable[[types.Inbox], bool], pauses: Iterator[float], deadline: float
    ) -> types.Inbox:
        """
        Ensure the inbox until ``is_done`` is true.

        :param pauses: seconds between the requests; waiting ends when they are exhausted.
        :param deadline: epoch seconds at which waiting ends.
        :return: the inbox, in its last state.
        """
        inbox = self.ensured()
        while (
            not is_done(inbox)
            and (left := deadline - clock.now()) > 0
            and (pause := next(pauses, None)) is not None
        ):
            clock.sleep(min(pause, left))
            inbox = self.ensured()
        return inbox

    def _ensure(self) -> types.Inbox:
        from airflow_provider_workflow.client import api

        call = api.ensure_inbox(self.name, self.subscription, self.notification_url)

        def read(answer: Answer) -> types.Inbox:
            # 200 for an existing inbox (docs/service.md 4).
            self.created = self.created or answer.status == HTTPStatus.CREATED
            return call.read(answer)

        return self.hook.client.send(replace(call, read=read))

    def _existing(self) -> types.Inbox | None:
        from airflow_provider_workflow.client.inboxes import DELETING

        named = [each for each in self.hook.list_inboxes(name=self.name) if each.get("name") == self.name]
        # An inbox that is being deleted may be listed beside a new one of the same name.
        return min(named, key=lambda inbox: inbox["status"] == DELETING, default=None)

    def delete(self, inbox: types.Inbox) -> None:
        """Delete a failed inbox, so that it can be created again."""
        from airflow_provider_workflow.client.wire import plain

        log.warning(
            "Inbox %s failed to initialize (%s); deleting it and creating it again",
            self.name,
            plain(inbox.get("paused_reason") or "no reason given"),
        )
        # Deleted, or being deleted, already.
        with contextlib.suppress(NotFoundError, ConflictError):
            self.hook.delete_inbox(inbox["id"])


def doubling(first: float, most: float) -> Iterator[float]:
    """Pauses in seconds; each is twice as long as the one before, up to ``most``."""
    while True:
        yield first
        first = min(first * 2, most)
