"""
One function per endpoint of the service; each checks its arguments and returns a ``Call``.

Invalid arguments raise a ``ValueError`` that names the field and its range, before a request is sent.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import parse_qs, urlencode

from airflow_provider_workflow import types
from airflow_provider_workflow.client import answers
from airflow_provider_workflow.client.arguments import (
    LEASE_LIMIT,
    LEASE_SECONDS,
    NAME_LENGTH,
    PAGE_SIZE,
    URL_LENGTH,
    id_list,
    opaque,
    query_params,
    require_int,
    require_text,
    segment,
)
from airflow_provider_workflow.client.call import Call, Family
from airflow_provider_workflow.client.http_messages import MAX_ERROR_BYTES
from airflow_provider_workflow.client.settings import Settings

MAX_LEASE_BYTES = 64_000_000
"""Bytes of a lease; the service does not publish a maximum."""
RENEW_EARLY_SECONDS = 300.0
MAX_TOKEN_LIFETIME_SECONDS = 30 * 86400.0
"""Maximum that is assumed, whatever ``expires_in`` says."""
ASSUMED_LIFETIME_SECONDS = 3600.0
"""For an answer without ``expires_in`` (docs/service.md 9)."""

# Inboxes (docs/service.md 4).


def list_inboxes(
    limit: int = PAGE_SIZE,
    offset: int = 0,
    status: str | None = None,
    name: str | None = None,
) -> Call[types.Page[types.Inbox]]:
    """
    One page of inboxes. None in its results stands for one without a usable id or a status.

    :param limit: inboxes in the page, 1 to 100.
    :param offset: inboxes to skip, 0 or more.
    :param status: only inboxes with this status.
    :param name: only the inbox with this name.
    """
    query = query_params(
        limit=require_int("limit", limit, (1, PAGE_SIZE)),
        offset=require_int("offset", offset, (0, 10**9)),
        status=status,
        name=name,
    )
    return Call("list_inboxes", "GET", Family.INBOX, "/inboxes", answers.page_of_inboxes, query=query)


def _new_inbox(
    subscription: types.Subscription,
    name: str | None,
    notification_url: str | None,
) -> dict[str, Any]:
    if not isinstance(subscription, Mapping):
        raise ValueError("subscription must be an object with app_key and action_key")
    for field in ("app_key", "action_key"):
        require_text(f"subscription.{field}", subscription.get(field, ""))
    inputs = subscription.get("inputs")
    if inputs is not None and not isinstance(inputs, Mapping):
        raise ValueError("subscription.inputs must be an object with the fields of the event, such as {}")
    try:
        json.dumps(subscription, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ValueError(f"subscription cannot be sent as JSON: {error}") from None
    # The service requires ``inputs``, even if it is empty (docs/service.md 2).
    body: dict[str, Any] = {"subscription": {**subscription, "inputs": dict(inputs or {})}}
    if name is not None:
        # Newer servers name it ``key`` (docs/service.md 2).
        body["name"] = body["key"] = require_text("name", name, NAME_LENGTH)
    if notification_url is not None:
        body["notification_url"] = require_text("notification_url", notification_url, URL_LENGTH)
    return body


def create_inbox(
    subscription: types.Subscription,
    name: str | None = None,
    notification_url: str | None = None,
) -> Call[types.Inbox]:
    """Create an inbox; its first status is ``initializing``. The name cannot be changed later."""
    body = _new_inbox(subscription, name, notification_url)
    return Call("create_inbox", "POST", Family.INBOX, "/inboxes", answers.inbox, json=body, repeatable=False)


def ensure_inbox(
    name: str,
    subscription: types.Subscription,
    notification_url: str | None = None,
) -> Call[types.Inbox]:
    """Create the inbox with this name, or return the existing one if it has the same subscription."""
    body = _new_inbox(subscription, require_text("name", name, NAME_LENGTH), notification_url)
    return Call("ensure_inbox", "PUT", Family.INBOX, "/inboxes", answers.inbox, json=body)


def _path_to(inbox_id: str, suffix: str = "") -> str:
    return f"/inboxes/{segment('inbox_id', inbox_id)}{suffix}"


def get_inbox(inbox_id: str) -> Call[types.Inbox]:
    """Get an inbox by its id (docs/service.md 4)."""
    return Call("get_inbox", "GET", Family.INBOX, _path_to(inbox_id), answers.inbox)


def update_inbox(inbox_id: str, notification_url: str | None) -> Call[types.Inbox]:
    """Change the notification URL of an inbox; None removes it."""
    if notification_url is not None:
        require_text("notification_url", notification_url, URL_LENGTH)
    body = {"notification_url": notification_url}
    return Call("update_inbox", "PATCH", Family.INBOX, _path_to(inbox_id), answers.inbox, json=body)


def delete_inbox(inbox_id: str) -> Call[types.Inbox]:
    """Delete an inbox and its messages."""
    return Call("delete_inbox", "DELETE", Family.INBOX, _path_to(inbox_id), answers.inbox)


def pause_inbox(inbox_id: str) -> Call[types.Inbox]:
    """Pause an inbox: the service then drops new events. 409 if it is already paused."""
    path = _path_to(inbox_id, "/pause")
    return Call("pause_inbox", "POST", Family.INBOX, path, answers.inbox, repeatable=False)


def resume_inbox(inbox_id: str) -> Call[types.Inbox]:
    """Resume a paused inbox. 409 if it is not paused."""
    path = _path_to(inbox_id, "/resume")
    return Call("resume_inbox", "POST", Family.INBOX, path, answers.inbox, repeatable=False)


# Messages of an inbox, and their event stream (docs/service.md 3 to 5).


def list_messages(
    inbox_id: str,
    cursor: str | None = None,
    limit: int | None = None,
) -> Call[types.Page[types.ListedMessage]]:
    """
    One page of the messages of an inbox, including quarantined ones, without payloads (docs/service.md 4).

    :param cursor: ``next_cursor`` of the previous page; None for the first page.
    :param limit: messages in the page, 1 to 100; None for the default of the service.
    """
    if limit is not None:
        require_int("limit", limit, (1, PAGE_SIZE))
    query = query_params(cursor=cursor, limit=limit)
    return Call(
        "list_messages", "GET", Family.INBOX, _path_to(inbox_id, "/messages"), answers.page, query=query
    )


def next_cursor(page: types.Page[types.ListedMessage]) -> str | None:
    """
    The cursor of the next page, or None if this is the last one.

    Only the cursor of the ``next`` URL is used, so that no token is sent to another host.
    """
    # ``urlsplit`` raises for some hosts.
    query = (page.get("next") or "").partition("#")[0].partition("?")[2]
    return parse_qs(query).get("cursor", [None])[0]


def lease_messages(
    inbox_id: str,
    lease_limit: int = 10,
    lease_seconds: int = 300,
) -> Call[types.LeaseAnswer]:
    """
    Lease messages. For an empty inbox ``lease_id`` is None.

    :param lease_limit: maximum number of messages, 1 to 100.
    :param lease_seconds: duration of the lease, 1 to 3600 s; it cannot be extended.
    """
    body = {
        "lease_seconds": require_int("lease_seconds", lease_seconds, LEASE_SECONDS),
        "lease_limit": require_int("lease_limit", lease_limit, LEASE_LIMIT),
    }
    path = _path_to(inbox_id, "/messages/lease")
    return Call(
        "lease_messages",
        "POST",
        Family.INBOX,
        path,
        answers.lease,
        json=body,
        repeatable=False,
        limit=MAX_LEASE_BYTES,
    )


def acknowledge_messages(
    inbox_id: str,
    lease_id: str,
    message_ids: Sequence[str] | None = None,
) -> Call[types.Receipt]:
    """
    Acknowledge leased messages: the service removes them. The call is idempotent.

    :param message_ids: 1 to 100 ids of the lease; None for all of its messages.
    """
    body = {"lease_id": opaque("lease_id", lease_id), **id_list(message_ids)}
    path = _path_to(inbox_id, "/messages/ack")
    return Call("acknowledge_messages", "POST", Family.INBOX, path, answers.receipt, json=body)


def release_messages(
    inbox_id: str,
    lease_id: str,
    message_ids: Sequence[str] | None = None,
) -> Call[types.Receipt]:
    """Release leased messages, chosen as by ``acknowledge_messages``; their delivery count stays."""
    body = {"lease_id": opaque("lease_id", lease_id), **id_list(message_ids)}
    path = _path_to(inbox_id, "/messages/release")
    return Call("release_messages", "POST", Family.INBOX, path, answers.receipt, json=body)


def events(inbox_id: str) -> Call[None]:
    """Open the event stream of an inbox (docs/service.md 5); sent by ``event_stream.py``."""
    return Call("events", "GET", Family.INBOX, _path_to(inbox_id, "/events"), answers.no_value)


# Workflow guesses and templates (docs/service.md 7 and 13).


def guess(description: str) -> Call[types.Guess]:
    """
    Guess a workflow from a description (docs/service.md 13).

    :param description: not empty; the service does not publish a maximum length.
    """
    return Call(
        name="guess",
        method="POST",
        family=Family.GUESS,
        path="/v2/guess",
        read=answers.guess,
        json={"description": require_text("description", description)},
        repeatable=False,
    )


def list_templates(
    apps: Sequence[str] | None = None,
    limit: int = PAGE_SIZE,
    offset: int = 0,
) -> Call[list[types.Template]]:
    """
    One page of templates (docs/service.md 7).

    :param apps: only templates that use these apps.
    :param limit: templates in the page, 1 to 100.
    :param offset: templates to skip, 0 or more.
    """
    if isinstance(apps, str):
        raise ValueError("apps must be a list of app names, not one string")
    query = query_params(
        apps=",".join(require_text("apps", app) for app in apps) if apps else None,
        limit=require_int("limit", limit, (1, PAGE_SIZE)),
        offset=require_int("offset", offset, (0, 10**9)),
    )
    return Call("list_templates", "GET", Family.TEMPLATES, "", answers.templates, query=query)


# Promotions (docs/service.md 8 and 14).


def unenroll_promotion(enrollment_id: str) -> Call[None]:
    """End a user's enrollment in a promotion, with the application's token (docs/service.md 8 and 14)."""
    path = f"/v2/promotions/{segment('enrollment_id', enrollment_id)}"
    return Call("unenroll_promotion", "DELETE", Family.PROMOTIONS, path, answers.no_value)


# Tokens and the authorization page (docs/service.md 9.1, 10 and 14).


def _token(name: str, form: Mapping[str, str], *, repeatable: bool) -> Call[types.Token]:
    return Call(
        name,
        "POST",
        Family.TOKEN,
        "",
        answers.token,
        form=query_params(**form),
        repeatable=repeatable,
        limit=MAX_ERROR_BYTES,
    )


def app_token(scope: str) -> Call[types.Token]:
    """Request an access token for the application: the client-credentials grant (docs/service.md 9.1)."""
    form = {"grant_type": "client_credentials", "scope": require_text("scope", scope)}
    return _token("app_token", form, repeatable=True)


def exchange_code(code: str, redirect_uri: str) -> Call[types.Token]:
    """
    Exchange an authorization code for a user's tokens (docs/service.md 9.1 and 14.3).

    :param code: valid for 2 minutes; can be used once.
    :param redirect_uri: the redirect URI with which the authorization page was opened.
    """
    form = {
        "grant_type": "authorization_code",
        "code": require_text("code", code),
        "redirect_uri": require_text("redirect_uri", redirect_uri),
    }
    return _token("exchange_code", form, repeatable=False)


def refresh_user_token(refresh_token: str) -> Call[types.Token]:
    """Refresh a user's tokens (docs/service.md 9.1 and 14.3)."""
    form = {"grant_type": "refresh_token", "refresh_token": require_text("refresh_token", refresh_token)}
    return _token("refresh_user_token", form, repeatable=False)


def token_of(answer: types.Token, asked_at: float) -> tuple[str, float, float]:
    """
    The access token of an answer, when to renew it before use, and when it expires.

    :param asked_at: time of the request, from which its lifetime is counted.
    :raises AuthenticationError: it is missing or cannot be sent in a header.
    """
    answers.check_access_token(answer)
    value = answer["access_token"]
    lifetime: Any = answer.get("expires_in")
    if isinstance(lifetime, str):
        with suppress(ValueError):
            lifetime = float(lifetime)
    if isinstance(lifetime, bool) or not isinstance(lifetime, (int, float)) or not lifetime > 0:
        lifetime = ASSUMED_LIFETIME_SECONDS
    lifetime = float(min(lifetime, MAX_TOKEN_LIFETIME_SECONDS))
    ends_at = asked_at + lifetime
    return value, ends_at - min(RENEW_EARLY_SECONDS, lifetime / 2), ends_at


def authorization_url(settings: Settings, *, scope: str, state: str, **prefilled: str) -> str:
    """
    The URL of the authorization page, to open in a browser (docs/service.md 10).

    :raises ValueError: ``auth_url`` or ``redirect_uri`` is missing, or ``prefilled`` has a parameter that is
        set here.
    """
    for field, value in (("auth_url", settings.auth_url), ("redirect_uri", settings.redirect_uri)):
        if not value:
            raise ValueError(f"{field} is missing: set it in the connection's Extra")
    query = {
        "response_type": "code",
        "client_id": settings.client_id,
        "redirect_uri": settings.redirect_uri,
        "scope": require_text("scope", scope),
        "response_mode": "query",
        "state": require_text("state", state),
    }
    for name in query.keys() & prefilled:
        raise ValueError(
            f"{name} is no optional parameter: leave it out; the connection or this method sets it"
        )
    return f"{settings.auth_url}/v2/authorize?{urlencode(query | prefilled)}"
