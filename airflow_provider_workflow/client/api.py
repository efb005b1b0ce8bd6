"""
Every endpoint of the service, once: each function checks its arguments and returns a ``Call``.

Bad arguments raise ``ValueError`` that names the field and its range, before anything is sent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import parse_qs, urlencode

from airflow_provider_workflow.client import types, wire
from airflow_provider_workflow.client.arguments import (
    LEASE_LIMIT,
    LEASE_SECONDS,
    NAME_LENGTH,
    PAGE_SIZE,
    URL_LENGTH,
    filled,
    given,
    id_list,
    opaque,
    segment,
    within,
)
from airflow_provider_workflow.client.call import Call, Family, Identity
from airflow_provider_workflow.client.settings import Settings

# Inboxes (docs/service.md 4).


def list_inboxes(
    limit: int = PAGE_SIZE, offset: int = 0, status: str | None = None, name: str | None = None
) -> Call[types.InboxPage]:
    """
    One page of inboxes.

    :param limit: inboxes in the page, 1 to 100.
    :param offset: inboxes to pass over, 0 or more.
    :param status: only those with this status.
    :param name: only the one with this name.
    """
    query = given(
        limit=within("limit", limit, (1, PAGE_SIZE)),
        offset=within("offset", offset, (0, 10**9)),
        status=status,
        name=name,
    )
    return Call("list_inboxes", "GET", Family.INBOX, "/inboxes", wire.page_of_inboxes, query=query)


def _new_inbox(
    subscription: types.Subscription, name: str | None, notification_url: str | None
) -> dict[str, Any]:
    if not isinstance(subscription, Mapping):
        raise ValueError("subscription must be an object with app_key and action_key")
    for field in ("app_key", "action_key"):
        filled(f"subscription.{field}", subscription.get(field, ""))
    inputs = subscription.get("inputs")
    if inputs is not None and not isinstance(inputs, Mapping):
        raise ValueError("subscription.inputs must be an object with the trigger's fields, such as {}")
    # The service requires them, be they none (docs/service.md 2).
    body: dict[str, Any] = {"subscription": {**subscription, "inputs": dict(inputs or {})}}
    if name is not None:
        # Newer servers call it ``key`` (docs/service.md 2).
        body["name"] = body["key"] = filled("name", name, NAME_LENGTH)
    if notification_url is not None:
        body["notification_url"] = filled("notification_url", notification_url, URL_LENGTH)
    return body


def create_inbox(
    subscription: types.Subscription, name: str | None = None, notification_url: str | None = None
) -> Call[types.Inbox]:
    """
    Create an inbox; it begins as ``initializing``.

    :param subscription: ``app_key``, ``action_key``, and, where they are needed, ``inputs`` (left out: none)
        and ``connection_id``.
    :param name: up to 100 characters, unique; cannot be changed later.
    :param notification_url: told by POST when messages arrive; up to 2048 characters.
    """
    body = _new_inbox(subscription, name, notification_url)
    return Call("create_inbox", "POST", Family.INBOX, "/inboxes", wire.inbox, json=body, repeatable=False)


def ensure_inbox(
    name: str, subscription: types.Subscription, notification_url: str | None = None
) -> Call[types.Inbox]:
    """Create the inbox of this name, or return the one that has the same subscription."""
    body = _new_inbox(subscription, filled("name", name, NAME_LENGTH), notification_url)
    return Call("ensure_inbox", "PUT", Family.INBOX, "/inboxes", wire.inbox, json=body)


def _path_to(inbox_id: str, rest: str = "") -> str:
    """The path of something of an inbox, its id percent-encoded."""
    return f"/inboxes/{segment('inbox_id', inbox_id)}{rest}"


def get_inbox(inbox_id: str) -> Call[types.Inbox]:
    """An inbox by its id (docs/service.md 4)."""
    return Call("get_inbox", "GET", Family.INBOX, _path_to(inbox_id), wire.inbox)


def update_inbox(inbox_id: str, notification_url: str | None) -> Call[types.Inbox]:
    """Change where an inbox announces its messages; None announces them nowhere."""
    if notification_url is not None:
        filled("notification_url", notification_url, URL_LENGTH)
    body = {"notification_url": notification_url}
    return Call("update_inbox", "PATCH", Family.INBOX, _path_to(inbox_id), wire.inbox, json=body)


def delete_inbox(inbox_id: str) -> Call[types.Inbox]:
    """Delete an inbox with all that is in it."""
    return Call("delete_inbox", "DELETE", Family.INBOX, _path_to(inbox_id), wire.inbox)


def pause_inbox(inbox_id: str) -> Call[types.Inbox]:
    """Pause an inbox. While it is paused the service drops new events. 409 where it is paused already."""
    path = _path_to(inbox_id, "/pause")
    return Call("pause_inbox", "POST", Family.INBOX, path, wire.inbox, repeatable=False)


def resume_inbox(inbox_id: str) -> Call[types.Inbox]:
    """Resume a paused inbox. 409 where it is not paused."""
    path = _path_to(inbox_id, "/resume")
    return Call("resume_inbox", "POST", Family.INBOX, path, wire.inbox, repeatable=False)


# The messages of an inbox, and the stream that announces them (docs/service.md 3, 4 and 5).


def list_messages(
    inbox_id: str, cursor: str | None = None, limit: int | None = None
) -> Call[types.MessagePage]:
    """
    One page of the messages of an inbox, quarantined ones included, payloads not (docs/service.md 4).

    :param cursor: from ``next_cursor`` of the page before; None begins.
    :param limit: messages in the page, 1 to 100; None leaves it to the service.
    """
    if limit is not None:
        within("limit", limit, (1, PAGE_SIZE))
    query = given(cursor=cursor, limit=limit)
    return Call("list_messages", "GET", Family.INBOX, _path_to(inbox_id, "/messages"), wire.page, query=query)


def next_cursor(page: types.MessagePage) -> str | None:
    """
    The cursor of the page after this one, or None at the end.

    Only the cursor is taken from the ``next`` address, so that a token never follows it to another host.
    """
    # Not ``urlsplit``, which refuses some addresses for their host.
    query = (page.get("next") or "").partition("#")[0].partition("?")[2]
    return parse_qs(query).get("cursor", [None])[0]


def lease_messages(inbox_id: str, lease_limit: int = 10, lease_seconds: int = 300) -> Call[types.Lease]:
    """
    Lease messages. An empty inbox answers with ``lease_id`` None.

    :param lease_limit: messages at most, 1 to 100.
    :param lease_seconds: how long they stay leased, 1 to 3600 s; no call extends it.
    """
    body = {
        "lease_seconds": within("lease_seconds", lease_seconds, LEASE_SECONDS),
        "lease_limit": within("lease_limit", lease_limit, LEASE_LIMIT),
    }
    path = _path_to(inbox_id, "/messages/lease")
    return Call("lease_messages", "POST", Family.INBOX, path, wire.lease, json=body, repeatable=False)


def acknowledge_messages(
    inbox_id: str, lease_id: str, message_ids: Sequence[str] | None = None
) -> Call[types.Acknowledged]:
    """
    Remove leased messages for good (docs/service.md 3.2). Repeating it does no harm.

    :param message_ids: 1 to 100 of the lease; None for all of it.
    """
    body = {"lease_id": opaque("lease_id", lease_id), **id_list(message_ids)}
    path = _path_to(inbox_id, "/messages/ack")
    return Call("acknowledge_messages", "POST", Family.INBOX, path, wire.receipt, json=body, urgent=True)


def release_messages(
    inbox_id: str, lease_id: str, message_ids: Sequence[str] | None = None
) -> Call[types.Released]:
    """
    Make leased messages leasable again at once. The attempt is not given back.

    :param message_ids: 1 to 100 of the lease; None for all of it.
    """
    body = {"lease_id": opaque("lease_id", lease_id), **id_list(message_ids)}
    path = _path_to(inbox_id, "/messages/release")
    return Call("release_messages", "POST", Family.INBOX, path, wire.receipt, json=body, urgent=True)


def events(inbox_id: str) -> Call[None]:
    """The event stream of an inbox (docs/service.md 5); ``event_stream.py`` opens it."""
    return Call("events", "GET", Family.INBOX, _path_to(inbox_id, "/events"), wire.nothing)


# Workflows that the service suggests: of a text, and as templates (docs/service.md 7 and 13).


def guess(description: str) -> Call[types.Guess]:
    """
    Guess a workflow from a text (docs/service.md 13).

    :param description: the text; its longest length is not published.
    """
    return Call(
        name="guess",
        method="POST",
        family=Family.GUESS,
        path="/v2/guess",
        read=wire.guess,
        identity=Identity.CLIENT_ID,
        json={"description": filled("description", description)},
        repeatable=False,
    )


def list_templates(
    apps: Sequence[str] | None = None, limit: int = PAGE_SIZE, offset: int = 0
) -> Call[list[types.Template]]:
    """
    One page of templates (docs/service.md 7).

    :param apps: only templates that use these apps.
    :param limit: templates in the page, 1 to 100.
    :param offset: templates to pass over, 0 or more.
    """
    if isinstance(apps, str):
        raise ValueError("apps must be a list of app names, not one text")
    query = given(
        apps=",".join(filled("apps", app) for app in apps) if apps else None,
        limit=within("limit", limit, (1, PAGE_SIZE)),
        offset=within("offset", offset, (0, 10**9)),
    )
    return Call(
        "list_templates", "GET", Family.TEMPLATES, "", wire.templates, Identity.CLIENT_ID, query=query
    )


# Promotions (docs/service.md 8 and 14).


def unenroll_promotion(enrollment_id: str) -> Call[None]:
    """End a user's enrolment in a promotion, for the application (docs/service.md 8 and 14)."""
    path = f"/v2/promotions/{segment('enrollment_id', enrollment_id)}"
    return Call(
        "unenroll_promotion", "DELETE", Family.PROMOTIONS, path, wire.nothing, scope="promotions:write"
    )


# Tokens, and where a user grants them (docs/service.md 9.1, 10 and 14).


def _token(name: str, form: Mapping[str, str], *, repeatable: bool) -> Call[types.Token]:
    return Call(
        name,
        "POST",
        Family.TOKEN,
        "",
        wire.thing,
        Identity.BASIC,
        form=form,
        repeatable=repeatable,
        urgent=True,
    )


def app_token(scope: str) -> Call[types.Token]:
    """An access token for the application itself: the client-credentials grant (docs/service.md 9.1)."""
    form = {"grant_type": "client_credentials", "scope": filled("scope", scope)}
    return _token("app_token", form, repeatable=True)


def exchange_code(code: str, redirect_uri: str) -> Call[types.Token]:
    """
    A user's tokens for an authorization code (docs/service.md 9.1 and 14.3).

    :param code: valid for 2 minutes, once.
    :param redirect_uri: the one that the authorization page was opened with.
    """
    form = {
        "grant_type": "authorization_code",
        "code": filled("code", code),
        "redirect_uri": filled("redirect_uri", redirect_uri),
    }
    return _token("exchange_code", form, repeatable=False)


def refresh_user_token(refresh_token: str) -> Call[types.Token]:
    """
    A user's next tokens (docs/service.md 9.1 and 14.3).

    :param refresh_token: used up by the call; the answer holds the next one.
    """
    form = {"grant_type": "refresh_token", "refresh_token": filled("refresh_token", refresh_token)}
    return _token("refresh_user_token", form, repeatable=False)


def authorization_url(
    settings: Settings, *, scope: str, state: str, redirect_uri: str | None = None, **prefilled: str
) -> str:
    """
    The address of the authorization page, for a browser (docs/service.md 10).

    :param scope: space-separated scopes that the user is asked for.
    :param state: random text that the redirect must bring back.
    :param redirect_uri: where the browser goes afterwards; the connection's by default.
    :param prefilled: optional parameters such as ``sign_up_email`` or ``utm_source``.
    :raises ValueError: the connection has no ``auth_url``, or there is no ``redirect_uri``.
    """
    target = redirect_uri or settings.redirect_uri
    for field, value in (("auth_url", settings.auth_url), ("redirect_uri", target)):
        if not value:
            raise ValueError(f"{field} is missing: set it in the connection's Extra")
    query = {
        "response_type": "code",
        "client_id": settings.client_id,
        "redirect_uri": target,
        "scope": filled("scope", scope),
        "response_mode": "query",
        "state": filled("state", state),
        **prefilled,
    }
    return f"{settings.auth_url}/v2/authorize?{urlencode(query)}"
