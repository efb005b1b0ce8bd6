"""``WorkflowHook``: an Airflow connection becomes a client; one named method per endpoint."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from airflow_provider_workflow.client import api, inboxes, types
from airflow_provider_workflow.hooks import fields
from airflow_provider_workflow.hooks.connected import DEFAULT_CONN_ID
from airflow_provider_workflow.hooks.masking import mask
from airflow_provider_workflow.hooks.tokens import TokenHook
from airflow_provider_workflow.hooks.trial import trial


class WorkflowHook(TokenHook):
    """
    Talks to the workflow service through a connection of type ``workflow``.

    Every method raises a ``WorkflowError`` (see ``client/errors.py`` for the tree) when the service
    does not do as asked, and ``ValueError`` for an argument out of its range, before anything is sent.
    Where a method takes ``inbox``, an id or a name will do.

    :param workflow_conn_id: id of the Airflow connection.
    """

    conn_name_attr = "workflow_conn_id"
    default_conn_name = DEFAULT_CONN_ID
    conn_type = fields.CONN_TYPE
    hook_name = fields.HOOK_NAME

    # Airflow asks a class for these two only where they stand in the class itself.

    @classmethod
    def get_connection_form_widgets(cls) -> dict[str, Any]:
        """The form's own fields, for Airflow 3.1; later versions read them from the provider info."""
        from flask_appbuilder.fieldwidgets import BS3TextFieldWidget
        from wtforms import StringField

        return {
            name: StringField(
                field["label"],
                widget=BS3TextFieldWidget(),
                description=field["description"],
                default=field["schema"].get("default"),
            )
            for name, field in fields.CONN_FIELDS.items()
        }

    @classmethod
    def get_ui_field_behaviour(cls) -> dict[str, Any]:
        """The form's standard fields, for Airflow 3.1; later versions read them from the provider info."""
        return {
            "hidden_fields": fields.HIDDEN,
            "relabeling": fields.RELABELED,
            "placeholders": fields.PLACEHOLDERS,
        }

    # Guess, templates, promotions (docs/service.md 7, 8 and 13)

    def guess(self, description: str) -> types.Guess:
        """
        Guess a workflow from a text.

        :raises GuessRejectedError: the text describes no workflow.
        """
        return self.client.send(api.guess(description))

    def list_templates(self, apps: list[str] | None = None, limit: int | None = None) -> list[types.Template]:
        """
        Workflow templates.

        :param apps: only templates that use these apps.
        :param limit: templates at most, 1 or more; None for all.
        """
        return self.client.run(inboxes.all_templates(apps, limit))

    def unenroll_promotion(self, enrollment_id: str) -> None:
        """End a user's enrolment in a promotion, with a token of scope ``promotions:write``."""
        self.client.send(api.unenroll_promotion(enrollment_id))

    # Inboxes (docs/service.md 4)

    def list_inboxes(self, status: str | None = None, name: str | None = None) -> list[types.Inbox]:
        """All inboxes, or those with this status or name."""
        return self.client.run(inboxes.all_inboxes(status, name))

    def create_inbox(
        self,
        subscription: types.Subscription,
        name: str | None = None,
        notification_url: str | None = None,
    ) -> types.Inbox:
        """
        Create an inbox; sent once, never repeated (``ensure_inbox`` may be).

        :param subscription: ``app_key``, ``action_key``, and, where they are needed, ``inputs`` (left out:
            none) and ``connection_id``.
        :param name: up to 100 characters, unique.
        :param notification_url: told by POST when messages arrive; up to 2048 characters.
        :raises ConflictError: the name is taken.
        """
        return self.client.send(api.create_inbox(subscription, name, notification_url))

    def ensure_inbox(
        self, name: str, subscription: types.Subscription, notification_url: str | None = None
    ) -> types.Inbox:
        """
        Create the inbox of this name, or return the one that has the same subscription.

        :param name: up to 100 characters, unique.
        :param subscription: ``app_key``, ``action_key``, and, where they are needed, ``inputs`` (left out:
            none) and ``connection_id``.
        :param notification_url: told by POST when messages arrive; up to 2048 characters.
        :raises ConflictError: the name belongs to an inbox with another subscription.
        """
        return self.client.send(api.ensure_inbox(name, subscription, notification_url))

    def get_inbox(self, inbox: str) -> types.Inbox:
        """An inbox with its ``status`` and ``paused_reason``."""
        return self._at(inbox, api.get_inbox)

    def update_inbox(self, inbox: str, notification_url: str | None) -> types.Inbox:
        """Change where an inbox announces its messages; None announces them nowhere."""
        return self._at(inbox, partial(api.update_inbox, notification_url=notification_url))

    def delete_inbox(self, inbox: str) -> types.Inbox:
        """Delete an inbox with all that is in it."""
        return self._at(inbox, api.delete_inbox)

    def pause_inbox(self, inbox: str) -> types.Inbox:
        """Pause an inbox; while it is paused the service drops new events."""
        return self._at(inbox, api.pause_inbox)

    def resume_inbox(self, inbox: str) -> types.Inbox:
        """Resume a paused inbox."""
        return self._at(inbox, api.resume_inbox)

    # Messages (docs/service.md 3 and 4)

    def list_messages(self, inbox: str) -> list[types.Message]:
        """All messages of an inbox, quarantined ones included, payloads not."""
        inbox_id = self.get_inbox(inbox)["id"]
        return self.client.run(inboxes.all_messages(inbox_id))

    def lease_messages(
        self, inbox: str, lease_limit: int = 10, lease_seconds: int = 300, *, patient: bool = True
    ) -> types.Lease:
        """
        Lease messages; sent once, as a lease whose answer was lost costs its messages an attempt.

        :param lease_limit: messages at most, 1 to 100.
        :param lease_seconds: how long they stay leased, 1 to 3600 s; no call extends it.
        :param patient: whether to wait where the service wants no calls for now; without it that is an error.
        :raises InboxPausedError: the inbox is paused and holds no more messages.
        """
        make = partial(api.lease_messages, lease_limit=lease_limit, lease_seconds=lease_seconds)
        if patient:
            return self._at(inbox, make)
        return self.run_once(inboxes.at_inbox(self.settings, inbox, make))

    def acknowledge_messages(
        self, inbox: str, lease_id: str, message_ids: Sequence[str] | None = None
    ) -> types.Acknowledged:
        """
        Remove leased messages for good.

        :param message_ids: 1 to 100 ids; None for the whole lease.
        :raises LeaseExpiredError: the lease ran out; the messages come again.
        """
        return self._at(inbox, partial(api.acknowledge_messages, lease_id=lease_id, message_ids=message_ids))

    def release_messages(
        self, inbox: str, lease_id: str, message_ids: Sequence[str] | None = None
    ) -> types.Released:
        """
        Make leased messages leasable again at once; the attempt is not given back.

        :param message_ids: 1 to 100 ids; None for the whole lease.
        :raises LeaseExpiredError: the lease ran out; the messages are leasable already.
        """
        return self._at(inbox, partial(api.release_messages, lease_id=lease_id, message_ids=message_ids))

    # The form's test

    def test_connection(self) -> tuple[bool, str]:
        """Ask for a new token and use it once; says which of the steps failed, in one sentence."""
        return trial(lambda: self.settings, mask)
