"""``WorkflowHook``: creates clients from an Airflow connection, and has one method per endpoint."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, closing
from copy import copy
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from airflow.providers.common.compat.sdk import AirflowNotFoundException
from airflow.sdk import BaseHook
from airflow.sdk.log import mask_secret

from airflow_provider_workflow import clock, types
from airflow_provider_workflow.client import api, inboxes
from airflow_provider_workflow.client.advice import reason_of, why_missing
from airflow_provider_workflow.client.call import Call, Calls
from airflow_provider_workflow.client.errors import ConfigurationError, LoginRequiredError, WorkflowError
from airflow_provider_workflow.client.settings import USER_GRANT, Settings, settings_of
from airflow_provider_workflow.client.tokens import TOKENS, TokenCache, is_users, token_key
from airflow_provider_workflow.client.user_tokens import NONE_STORED, user_tokens_of
from airflow_provider_workflow.config import max_event_streams
from airflow_provider_workflow.get_provider_info import CONN_TYPE, HOOK_NAME
from airflow_provider_workflow.hooks.user_tokens import VariableStore
from airflow_provider_workflow.observers.calls import observer

if TYPE_CHECKING:
    from typing import Self

    from airflow_provider_workflow.client.async_client import AsyncWorkflowClient
    from airflow_provider_workflow.client.sync_client import WorkflowClient

T = TypeVar("T")
P = ParamSpec("P")

DEFAULT_CONN_ID = "workflow_default"
HURRIED_SECONDS = 5.0
TESTED = "A token was issued, and the service accepts it."
USER_NOT_TESTED = "The client ID and secret are accepted. A user's tokens are not tested here."


class WorkflowHook(BaseHook):
    """
    Calls the workflow service through a connection of type ``workflow``.

    Every method raises a ``WorkflowError`` (see ``client/errors.py``) if the call fails, and ``ValueError``
    for an invalid argument, before a request is sent. The argument ``inbox`` is an id or a name.

    :param workflow_conn_id: id of the Airflow connection.
    """

    conn_name_attr = "workflow_conn_id"
    default_conn_name = DEFAULT_CONN_ID
    conn_type = CONN_TYPE
    hook_name = HOOK_NAME

    def __init__(self, workflow_conn_id: str = DEFAULT_CONN_ID) -> None:
        super().__init__()
        self.workflow_conn_id = workflow_conn_id

    # The connection and its clients

    @cached_property
    def settings(self) -> Settings:
        """
        The checked connection.

        :raises ConfigurationError: names every missing or invalid field.
        """
        try:
            connection = self.get_connection(self.workflow_conn_id)
        except AirflowNotFoundException as error:
            raise ConfigurationError([why_missing(self.workflow_conn_id)]) from error
        settings = settings_of(connection, self.workflow_conn_id)
        if settings.client_secret != connection.password:  # Airflow masks it with its line break
            mask_secret(settings.client_secret)
        return settings

    @cached_property
    def client(self) -> WorkflowClient:
        """The client of this hook; its connections stay open until ``close``."""
        return self._new_client(self.settings)

    def _new_client(self, settings: Settings, **options: Any) -> WorkflowClient:
        from airflow_provider_workflow.client.sync_client import WorkflowClient

        store = VariableStore(settings, mask_secret) if settings.grant == USER_GRANT else None
        observe = observer(self.workflow_conn_id, settings.base_url)
        return WorkflowClient(settings, on_token=mask_secret, store=store, observe=observe, **options)

    def close(self) -> None:
        """Close the connections of this hook's client; its next call opens new ones."""
        if "client" in vars(self):
            self.client.close()

    def for_shutdown(self, **options: Any) -> Self:
        """
        A copy that makes one attempt per call, for at most 5 s, and never waits at a rate gate.

        For a task that is being stopped. Must be closed.

        :param options: further ones of the client.
        """
        other = copy(self)
        settings = replace(self.settings, timeout=min(self.settings.timeout, HURRIED_SECONDS))
        other.client = self._new_client(settings, attempts=1, longest_wait=0.0, **options)
        return other

    def run_once(self, calls: Calls[P, T], *args: P.args, **options: P.kwargs) -> T:
        """
        Make optional calls: one attempt per call, for at most 5 s, and without waiting at a rate gate.

        :param calls: makes them by its first argument, such as ``inboxes.all_messages``.
        :param args: further arguments of ``calls``.
        :raises WorkflowError: a call failed.
        """
        with closing(self.for_shutdown().client) as client:
            return client.run(calls, *args, **options)

    @asynccontextmanager
    async def async_client(self) -> AsyncIterator[AsyncWorkflowClient]:
        """
        A client for triggers: it does not block the event loop, and uses the loop's shared session. It sends
        each call once: triggers repeat calls in loops of their own.
        """
        from airflow.providers.common.compat.connection import get_async_connection
        from asgiref.sync import sync_to_async

        # In a thread, as aiohttp takes half a second.
        await asyncio.to_thread(__import__, "airflow_provider_workflow.client.async_client")
        from airflow_provider_workflow.client.aiohttp_transport import shared_session
        from airflow_provider_workflow.client.async_client import AsyncWorkflowClient

        try:
            connection = await get_async_connection(self.workflow_conn_id)
        except AirflowNotFoundException as error:
            raise ConfigurationError([why_missing(self.workflow_conn_id)]) from error
        # In threads, as they read files of certificates.
        settings = await asyncio.to_thread(settings_of, connection, self.workflow_conn_id)
        async with shared_session(await asyncio.to_thread(settings.tls), max_event_streams()) as session:
            # Tokens are not masked here: a triggerer would keep them all.
            yield AsyncWorkflowClient(
                settings,
                session,
                store=VariableStore(settings) if settings.grant == USER_GRANT else None,
                # Before Airflow 3.3 a Variable, in other threads, breaks the triggerer's communication.
                in_thread=lambda function: sync_to_async(function, thread_sensitive=False)(),
                observe=observer(self.workflow_conn_id, settings.base_url),
            )

    def _for_inbox(self, inbox: str, make: Callable[[str], Call[T]]) -> T:
        return self.client.run(inboxes.at_inbox, inbox, make)

    # Tokens (docs/service.md 9.2 and 14)

    def authorization_url(self, *, scope: str, state: str, **prefilled: str) -> str:
        """
        The URL of the authorization page, to open in a browser.

        :param scope: space-separated scopes that the user is asked to grant.
        :param state: random string; compare it with the ``state`` of the redirect.
        :param prefilled: optional parameters such as ``sign_up_email`` or ``utm_source``.
        :raises ValueError: ``auth_url`` or ``redirect_uri`` is missing, or ``prefilled`` has a parameter that
            the connection or this method sets, as ``redirect_uri``.
        """
        return api.authorization_url(self.settings, scope=scope, state=state, **prefilled)

    def exchange_code(self, code: str) -> types.Token:
        """
        Exchange a code for a user's tokens; never retried after the code may have been used.

        :param code: valid for 2 minutes.
        """
        return self._masked(self.client.send(api.exchange_code(code, self.settings.redirect_uri)))

    def refresh_user_token(self, refresh_token: str) -> types.Token:
        """
        Refresh a user's tokens; never retried after the refresh token may have been used.

        :param refresh_token: invalid after the call. Store the returned one before anything else.
        """
        return self._masked(self.client.send(api.refresh_user_token(refresh_token)))

    def store_user_tokens(self, token: types.Token) -> None:
        """
        Store a user's tokens for all tasks and triggers of this connection, replacing earlier ones.

        Other processes use a cached one until it is due.

        :param token: a new answer of the token endpoint, with a refresh token.
        :raises ConfigurationError: the connection's grant is not ``refresh_token``.
        :raises TokenStoreError: Airflow could not store them.
        """
        if self.settings.grant != USER_GRANT:
            raise ConfigurationError([f"grant must be {USER_GRANT} to use a user's tokens"])
        VariableStore(self.settings, mask_secret).write(user_tokens_of(token, clock.now()))
        TOKENS.forget(token_key(self.settings, self.settings.scope))

    def app_token(self, scope: str | None = None) -> types.Token:
        """
        Request a new access token for the application; the token cache is neither read nor changed.

        :param scope: space-separated scopes; the connection's by default.
        """
        return self._masked(self.client.send(api.app_token(scope or self.settings.scope)))

    def access_token(self, scope: str | None = None) -> types.Token:
        """
        The access token for calls of this scope: a user's token, or a new one of the application.

        A user's token is first renewed if it is due; the refresh token is not returned.

        :param scope: space-separated scopes; the connection's by default.
        :raises LoginRequiredError: the user's tokens are no longer valid.
        """
        scopes = scope or self.settings.scope
        if not is_users(self.settings, scopes):
            return self.app_token(scopes)
        token = self.client.access_token(scopes)
        seconds = max(0, int(token.expires_at - clock.monotonic()))
        return {"access_token": token.value, "expires_in": seconds, "token_type": "Bearer", "scope": scopes}

    @staticmethod
    def _masked(token: types.Token) -> types.Token:
        for name in ("access_token", "refresh_token"):
            if isinstance(value := token.get(name), str):
                mask_secret(value)
        return token

    # Guess, templates, promotions (docs/service.md 7, 8 and 13)

    def guess(self, description: str) -> types.Guess:
        """
        Guess a workflow from a description.

        :raises GuessRejectedError: the description matches no workflow.
        """
        return self.client.send(api.guess(description))

    def list_templates(self, apps: list[str] | None = None, limit: int | None = None) -> list[types.Template]:
        """
        List workflow templates.

        :param apps: only templates that use these apps.
        :param limit: maximum number of templates, 1 or more; None for all.
        """
        return self.client.run(inboxes.all_templates, apps, limit)

    def unenroll_promotion(self, enrollment_id: str) -> None:
        """End a user's enrollment in a promotion, with a token of scope ``promotions:write``."""
        self.client.send(api.unenroll_promotion(enrollment_id))

    # Inboxes (docs/service.md 4)

    def list_inboxes(self, status: str | None = None, name: str | None = None) -> list[types.Inbox]:
        """List all inboxes, or those with this status and name."""
        return self.client.run(inboxes.all_inboxes, status, name)

    def create_inbox(
        self, subscription: types.Subscription, name: str | None = None, notification_url: str | None = None
    ) -> types.Inbox:
        """
        Create an inbox; never retried if the service may have received the request (unlike ``ensure_inbox``).

        :param subscription: ``app_key``, ``action_key``, and, if needed, ``inputs`` (default: empty) and
            ``connection_id``.
        :param name: up to 100 characters, unique.
        :param notification_url: receives a POST when messages arrive; up to 2048 characters.
        :raises ConflictError: another inbox has the name.
        """
        return self.client.send(api.create_inbox(subscription, name, notification_url))

    def ensure_inbox(
        self, name: str, subscription: types.Subscription, notification_url: str | None = None
    ) -> types.Inbox:
        """
        Create the inbox with this name, or return the existing one if it has the same subscription.

        The parameters are those of ``create_inbox``.

        :raises ConflictError: the inbox with this name has another subscription.
        """
        return self.client.send(api.ensure_inbox(name, subscription, notification_url))

    def get_inbox(self, inbox: str) -> types.Inbox:
        """Get an inbox with its ``status`` and ``paused_reason``."""
        return self._for_inbox(inbox, api.get_inbox)

    def inbox_id(self, inbox: str) -> str:
        """
        The id of an inbox, with one request.

        :param inbox: id or name.
        :raises NotFoundError: there is no such inbox.
        """
        return (
            self.get_inbox(inbox)["id"] if inboxes.is_id(inbox) else self.client.run(inboxes.look_up, inbox)
        )

    def update_inbox(self, inbox: str, notification_url: str | None) -> types.Inbox:
        """Change the notification URL of an inbox; None removes it."""
        return self._for_inbox(inbox, partial(api.update_inbox, notification_url=notification_url))

    def delete_inbox(self, inbox: str) -> types.Inbox:
        """Delete an inbox and its messages."""
        return self._for_inbox(inbox, api.delete_inbox)

    def pause_inbox(self, inbox: str) -> types.Inbox:
        """Pause an inbox: the service then drops new events."""
        return self._for_inbox(inbox, api.pause_inbox)

    def resume_inbox(self, inbox: str) -> types.Inbox:
        """Resume a paused inbox."""
        return self._for_inbox(inbox, api.resume_inbox)

    # Messages (docs/service.md 3 and 4)

    def list_messages(self, inbox: str) -> list[types.ListedMessage]:
        """List all messages of an inbox, including quarantined ones, without payloads."""
        return self.client.run(inboxes.all_messages, self.inbox_id(inbox))

    def lease_messages(
        self, inbox: str, lease_limit: int = 10, lease_seconds: int = 300
    ) -> types.LeaseAnswer:
        """
        Lease messages; never retried after a lost answer, as each lease increases the delivery count.

        :param lease_limit: maximum number of messages, 1 to 100.
        :param lease_seconds: duration of the lease, 1 to 3600 s; it cannot be extended.
        :raises InboxPausedError: the inbox is paused and has no messages to lease.
        """
        call = partial(api.lease_messages, lease_limit=lease_limit, lease_seconds=lease_seconds)
        return self._for_inbox(inbox, call)

    def acknowledge_messages(
        self, inbox: str, lease_id: str, message_ids: Sequence[str] | None = None
    ) -> types.Receipt:
        """
        Acknowledge leased messages: the service removes them.

        :param message_ids: 1 to 100 ids; None for the whole lease.
        :raises LeaseExpiredError: the lease has expired; the messages are redelivered.
        """
        return self._for_inbox(
            inbox, partial(api.acknowledge_messages, lease_id=lease_id, message_ids=message_ids)
        )

    def release_messages(
        self, inbox: str, lease_id: str, message_ids: Sequence[str] | None = None
    ) -> types.Receipt:
        """
        Release leased messages: they are available again at once. Their delivery count stays as it is.

        :param message_ids: 1 to 100 ids; None for the whole lease.
        :raises LeaseExpiredError: the lease has expired; the messages are already available.
        """
        return self._for_inbox(
            inbox, partial(api.release_messages, lease_id=lease_id, message_ids=message_ids)
        )

    # The form's test

    def test_connection(self) -> tuple[bool, str]:
        """
        Request a new token of the application, and list inboxes with it; one attempt each.

        Without a list for the grant ``refresh_token``: the UI tests a copy, which has no user's tokens.

        :return: whether that succeeded, and one sentence about the result.
        """
        try:
            is_user = self.settings.grant == USER_GRANT
            call: Call[Any] = api.app_token(self.settings.scope) if is_user else api.list_inboxes(limit=1)
            with closing(self.for_shutdown(tokens=TokenCache()).client) as client:
                client.send(call)
        except ConfigurationError as error:
            return False, str(error)
        except WorkflowError as error:
            return False, reason_of(error) + (f" ({error.fix})" if error.fix else "")
        return True, USER_NOT_TESTED if is_user else TESTED


def may_be_away(error: Exception) -> bool:
    """Whether an error may come from an Airflow whose API is away at the moment."""
    is_login = isinstance(error, LoginRequiredError) and error.reason == NONE_STORED
    return is_login or isinstance(error.__cause__, AirflowNotFoundException)
