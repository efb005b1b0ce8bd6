"""``WorkflowHook``: an Airflow connection becomes a client; one named method per endpoint."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Generator, Sequence
from contextlib import asynccontextmanager
from copy import copy
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, TypeVar

from airflow.sdk import BaseHook
from airflow.sdk.log import mask_secret

from airflow_provider_workflow import clock
from airflow_provider_workflow.airflow_internals import mask_in_triggerer
from airflow_provider_workflow.client import api, inboxes, types
from airflow_provider_workflow.client.call import Call
from airflow_provider_workflow.client.settings import USER_GRANT, Settings
from airflow_provider_workflow.config import max_event_streams
from airflow_provider_workflow.hooks import connection, login, user_tokens
from airflow_provider_workflow.hooks.connection_test import trial
from airflow_provider_workflow.hooks.user_tokens import VariableStore
from airflow_provider_workflow.metrics import observer

if TYPE_CHECKING:
    from typing_extensions import Self

    from airflow_provider_workflow.client.client import AsyncWorkflowClient, WorkflowClient


T = TypeVar("T")

DEFAULT_CONN_ID = "workflow_default"
HURRIED_SECONDS = 5.0


class WorkflowHook(BaseHook):
    """
    Talks to the workflow service through a connection of type ``workflow``.

    Every method raises a ``WorkflowError`` (see ``client/errors.py`` for the tree) when the service
    does not do as asked, and ``ValueError`` for an argument out of its range, before anything is sent.
    Where a method takes ``inbox``, an id or a name will do.

    :param workflow_conn_id: id of the Airflow connection.
    """

    conn_name_attr = "workflow_conn_id"
    default_conn_name = DEFAULT_CONN_ID
    conn_type = connection.CONN_TYPE
    hook_name = connection.HOOK_NAME

    def __init__(self, workflow_conn_id: str = DEFAULT_CONN_ID) -> None:
        super().__init__()
        self.workflow_conn_id = workflow_conn_id

    # Airflow asks a class for these two only where they stand in the class itself.

    @classmethod
    def get_connection_form_widgets(cls) -> dict[str, Any]:
        """The form's own fields, for Airflow 3.1; later versions read them from the provider info."""
        return connection.form_widgets()

    @classmethod
    def get_ui_field_behaviour(cls) -> dict[str, Any]:
        """The form's standard fields, for Airflow 3.1; later versions read them from the provider info."""
        return {
            "hidden_fields": connection.HIDDEN,
            "relabeling": connection.RELABELED,
            "placeholders": connection.PLACEHOLDERS,
        }

    # The connection and its clients

    @cached_property
    def settings(self) -> Settings:
        """
        The checked connection.

        :raises ConfigurationError: names every field that is missing or wrong.
        """
        connection = self.get_connection(self.workflow_conn_id)
        return _settings(connection, connection.extra_dejson, self.workflow_conn_id)

    @cached_property
    def client(self) -> WorkflowClient:
        """The client of this hook; its connections stay open for as long as the hook lives."""
        return self._new_client(self.settings)

    def _new_client(self, settings: Settings, **options: Any) -> WorkflowClient:
        from airflow_provider_workflow.client.client import WorkflowClient

        store = VariableStore(settings, mask_secret) if settings.grant == USER_GRANT else None
        observe = observer(self.workflow_conn_id)
        return WorkflowClient(settings, on_token=mask_secret, store=store, observe=observe, **options)

    def close(self) -> None:
        """Close the connections of this hook's client; its next call opens new ones."""
        if "client" in vars(self):
            self.client.close()

    def hurried(self) -> Self:
        """
        This hook with another client: it sends each call once, for at most 5 s, and waits at no rate gate.

        For a task that is being ended. To be closed.
        """
        other = copy(self)
        settings = replace(self.settings, timeout=min(self.settings.timeout, HURRIED_SECONDS))
        other.client = self._new_client(settings, attempts=1, longest_wait=0.0)
        return other

    def run_once(self, exchange: Generator[Any, Any, T]) -> T:
        """
        Make calls that are not worth any patience: none is sent twice, nor waits at a rate gate.

        :param exchange: the calls, such as ``inboxes.all_messages``.
        :raises WorkflowError: the first of them that failed.
        """
        return self.client.hurried().run(exchange)

    @asynccontextmanager
    async def async_client(self) -> AsyncIterator[AsyncWorkflowClient]:
        """A client for triggers: nothing in it blocks the event loop, and it shares the loop's session."""
        from airflow.providers.common.compat.connection import get_async_connection
        from asgiref.sync import sync_to_async

        from airflow_provider_workflow.client.client import AsyncWorkflowClient
        from airflow_provider_workflow.client.over_aiohttp import shared_session

        connection = await get_async_connection(self.workflow_conn_id)
        # Not ``extra_dejson``: it tells the supervisor what to mask, a blocking call that can end a
        # triggerer. There is no secret among our extra fields.
        settings = _settings(connection, _decoded(connection.extra), self.workflow_conn_id)
        hide = partial(mask_in_triggerer, connection_id=self.workflow_conn_id)
        async with shared_session(settings.ca_file(), max_event_streams()) as session:
            yield AsyncWorkflowClient(
                settings,
                session,
                on_token=hide,
                store=VariableStore(settings, hide) if settings.grant == USER_GRANT else None,
                # Not any thread: what a Variable asks of the supervisor goes through the triggerer's loop
                # only from asgiref's. Others break the triggerer's own talk before Airflow 3.3.
                in_thread=lambda function, *given: sync_to_async(function)(*given),
                observe=observer(self.workflow_conn_id),
            )

    def _at(self, inbox: str, make: Callable[[str], Call[T]]) -> T:
        return self.client.run(inboxes.at_inbox(self.settings, inbox, make))

    # Tokens (docs/service.md 9.2 and 14)

    def authorization_url(
        self, *, scope: str, state: str, redirect_uri: str | None = None, **prefilled: str
    ) -> str:
        """
        Address of the authorization page, to be opened in a browser.

        :param scope: space-separated scopes that the user is asked for.
        :param state: random text; compare it with the one that the redirect brings back.
        :param redirect_uri: where the browser goes afterwards; the connection's by default.
        :param prefilled: optional parameters such as ``sign_up_email`` or ``utm_source``.
        :raises ValueError: the connection has no ``auth_url``, or there is no ``redirect_uri``.
        """
        return api.authorization_url(
            self.settings, scope=scope, state=state, redirect_uri=redirect_uri, **prefilled
        )

    def exchange_code(self, code: str, redirect_uri: str | None = None) -> types.Token:
        """
        A user's tokens for an authorization code; sent once, never repeated.

        :param code: valid for 2 minutes.
        :param redirect_uri: the one that the page was opened with; the connection's by default.
        """
        return self._masked(
            self.client.send(api.exchange_code(code, redirect_uri or self.settings.redirect_uri))
        )

    def refresh_user_token(self, refresh_token: str) -> types.Token:
        """
        A user's next tokens; sent once, never repeated.

        :param refresh_token: used up by the call. Store the answer's own before anything else.
        """
        return self._masked(self.client.send(api.refresh_user_token(refresh_token)))

    def log_in(self, *, code: str, state: str, expected_state: str, redirect_uri: str | None = None) -> None:
        """
        Exchange what the authorization page sent back, and store the user's tokens (docs/service.md 14.3).

        :param code: valid for 2 minutes, once.
        :param state: as the redirect brought it back.
        :param expected_state: as ``authorization_url`` was given it.
        :param redirect_uri: the one that the page was opened with; the connection's by default.
        :raises ValueError: the redirect answers another request than ours; nothing was sent.
        :raises ConfigurationError: the connection's grant is not ``refresh_token``.
        """
        login.check_grant(self.settings)
        login.check_state(state, expected_state)
        asked_at = clock.now()
        self.store_user_tokens(self.exchange_code(code, redirect_uri), asked_at)

    def store_user_tokens(self, token: types.Token, asked_at: float | None = None) -> None:
        """
        Store a user's tokens for all tasks and triggers of this connection, in the place of those before.

        Processes that hold an access token from before use it until it is due.

        :param token: an answer of the token endpoint that holds a refresh token.
        :param asked_at: when it was asked for, in seconds since 1970; now by default.
        :raises ConfigurationError: the connection's grant is not ``refresh_token``.
        :raises TokenStoreError: Airflow does not take them.
        """
        login.keep(self.settings, token, clock.now() if asked_at is None else asked_at, mask_secret)

    def app_token(self, scope: str | None = None) -> types.Token:
        """
        A new access token for the application itself; the token cache is left alone.

        :param scope: space-separated scopes; the connection's by default.
        """
        return self._masked(self.client.send(api.app_token(scope or self.settings.scope)))

    def access_token(self, scope: str | None = None) -> types.Token:
        """
        What calls of this scope are sent with: a user's token, or a new one of the application.

        A user's is renewed first where it is due. It comes without its refresh token.

        :param scope: space-separated scopes; the connection's by default.
        :raises LoginRequiredError: the user's tokens are of no use any more.
        """
        wanted = scope or self.settings.scope
        of_user = user_tokens.in_use(self.settings, wanted, self.client)
        return self.app_token(wanted) if of_user is None else of_user

    @staticmethod
    def _masked(token: types.Token) -> types.Token:
        for name in ("access_token", "refresh_token"):
            if isinstance(value := token.get(name), str):
                mask_secret(value)
        return token

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
        return trial(lambda: self.settings, mask_secret)


def _decoded(extra: str | None) -> Any:
    try:
        return json.loads(extra or "{}")
    except ValueError:
        return {}


def _settings(connection: Any, extra: Any, conn_id: str) -> Settings:
    # An extra that is no object holds no fields, and the error that names those missing says so.
    return Settings.build(
        host=connection.host,
        login=connection.login,
        password=connection.password,
        extra=extra if isinstance(extra, dict) else {},
        scheme=connection.schema,
        port=connection.port,
        connection_id=conn_id,
    )
