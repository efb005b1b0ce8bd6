"""The inbox that a name stands for: the calls that create, find, change and delete it (docs/service.md 4)."""

from __future__ import annotations

import contextlib
import json
import logging
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_workflow.client import api, types
from airflow_provider_workflow.client.errors import ConflictError, NotFoundError
from airflow_provider_workflow.client.inboxes import DELETING, FAILED
from airflow_provider_workflow.options import check_inputs, whole_number
from airflow_provider_workflow.values import plain

if TYPE_CHECKING:
    from airflow_provider_workflow.client.wire import Answer
    from airflow_provider_workflow.hooks.workflow import WorkflowHook

log = logging.getLogger(__name__)


class InboxNameTakenError(AirflowFailException):
    """
    The name belongs to an inbox with another subscription (docs/service.md 11.2); no retry changes that.

    :param wanted: the subscription asked for.
    :param existing: the inbox that has the name.
    """

    def __init__(self, name: str, wanted: types.Subscription, existing: types.Inbox) -> None:
        subscription = existing.get("subscription")
        has = (
            json.dumps(subscription, sort_keys=True) if subscription else "one that the service does not show"
        )
        super().__init__(
            f"The name {name!r} belongs to inbox {plain(existing['id'])}, which has another subscription."
            f" Asked for: {json.dumps(wanted, sort_keys=True)}; it has: {has}."
            " Choose another name, or delete that inbox first."
        )


@dataclass
class NamedInbox:
    """
    An inbox as it is to be; no call here does harm when it is repeated.

    :param name: up to 100 characters.
    :param subscription: what it is to be subscribed to.
    :param notification_url: told when messages arrive; None leaves that of an existing inbox as it is.
    :param created: whether ``ensured`` has created it; of a creation whose answer was lost it is not known.
    """

    hook: WorkflowHook
    name: str
    subscription: types.Subscription
    notification_url: str | None
    created: bool = field(default=False, init=False)

    def ensured(self) -> types.Inbox:
        """
        The inbox of this name, in whatever state; the one being deleted, where that has the name yet.

        :raises InboxNameTakenError: it has another subscription.
        :raises ConflictError: the name is taken by an inbox that the service does not show.
        """
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
        # Not where: the address may be a secret.
        log.info("Inbox %s announces its messages at another notification_url from now on", self.name)
        return self.hook.update_inbox(inbox["id"], url)

    def _ensure(self) -> types.Inbox:
        call = api.ensure_inbox(self.name, self.subscription, self.notification_url)

        def read(answer: Answer) -> types.Inbox:
            # An inbox that was there already is answered with 200 (docs/service.md 4).
            self.created = self.created or answer.status == HTTPStatus.CREATED
            return call.read(answer)

        return self.hook.client.send(replace(call, read=read))

    def _existing(self) -> types.Inbox | None:
        named = [each for each in self.hook.list_inboxes(name=self.name) if each.get("name") == self.name]
        # One that is being deleted may be listed beside the one that has taken its name since.
        return min(named, key=lambda inbox: inbox["status"] == DELETING, default=None)

    def delete(self, inbox: types.Inbox) -> None:
        """Delete the inbox because it failed, so that it can be created again."""
        log.warning(
            "Inbox %s failed to initialise (%s); deleting it and creating it again",
            self.name,
            plain(inbox.get("paused_reason") or "no reason given"),
        )
        # Gone or going already: what is wanted.
        with contextlib.suppress(NotFoundError, ConflictError):
            self.hook.delete_inbox(inbox["id"])


def subscription_of(app_key: str, action_key: str, inputs: Any, connection_id: Any) -> types.Subscription:
    """
    A subscription of arguments that came as texts, from a template or a command line.

    :raises ValueError: the inputs are no mapping.
    """
    wanted: types.Subscription = {
        "app_key": app_key,
        "action_key": action_key,
        "inputs": dict(check_inputs(inputs) or {}),
    }
    if connection_id is not None:
        wanted["connection_id"] = whole_number(connection_id)
    return wanted
