"""Converts an unsuccessful answer, or the lack of one, into an exception: what each status means."""

from __future__ import annotations

import shlex
from enum import StrEnum
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

from airflow_provider_workflow.client.call import CONNECTION_SCOPE, Call, Family, Identity
from airflow_provider_workflow.client.errors import (
    AuthenticationError,
    ConflictError,
    GuessRejectedError,
    InboxPausedError,
    InvalidRequestError,
    LeaseExpiredError,
    NotFoundError,
    RateLimitError,
    ServerError,
    TransportError,
    WorkflowAPIError,
)
from airflow_provider_workflow.client.settings import USER_GRANT, Settings
from airflow_provider_workflow.client.wire import Answer, Request, host_of, plain


def name_connection(error: AuthenticationError, call: Call[Any], settings: Settings) -> None:
    """
    Add to an error the connection, the host that rejected it, and what to correct.

    An error of a connection without an id stays as it is.
    """
    if not settings.connection_id:
        return
    # A 200 without a token also comes from the token endpoint, whatever the family of the call.
    if call.family is Family.TOKEN or error.status == HTTPStatus.OK:
        host, fix = settings.token_url, _of_token(error, settings)
    else:
        host, fix = settings.base_url, _of_api(error, call, settings)
    error.refused_by(host_of(host), settings.connection_id, fix)


def _of_token(error: AuthenticationError, settings: Settings) -> str:
    if error.code == "invalid_scope":
        return "correct its Scope or have the application allowed to use it"
    if error.code == "invalid_grant":
        return _log_in(settings)
    if error.status in (401, 403) or "client" in (error.code or ""):
        return f"{space_around(settings)}correct its Login (client ID) and Password (client secret)"
    return "correct its Token URL, which must be the token endpoint exactly as the service gives it"


def space_around(settings: Settings) -> str:
    """What to do first about a rejected client secret that begins or ends with a space; "" without one."""
    if settings.client_secret == settings.client_secret.strip():
        return ""
    return "the client secret begins or ends with a space: remove it unless it belongs to the secret; then "


def _of_api(error: AuthenticationError, call: Call[Any], settings: Settings) -> str:
    if call.identity is Identity.CLIENT_ID:
        return "correct its Login (client ID)"
    if call.scope != CONNECTION_SCOPE:
        return f"have the application allowed to use the scope {call.scope}"
    if error.code == "invalid_audience":
        if settings.grant == USER_GRANT:
            return f"correct its Scope and {_log_in(settings)}"
        return "correct its Scope, and take Host and Token URL from one service"
    return "have the application allowed to use trigger inboxes, and take Host and Token URL from one service"


def _log_in(settings: Settings) -> str:
    return f"log in again (airflow-workflow login --conn-id {shlex.quote(settings.connection_id)})"


LONGEST_DETAIL = 500
_REQUESTS = {
    "app_token": "for an access token",
    "exchange_code": "for the tokens of a user",
    "refresh_user_token": "to renew the tokens of a user",
    "guess": "to guess a workflow",
    "list_templates": "for the workflow templates",
    "unenroll_promotion": "to end an enrollment",
    "list_inboxes": "for the list of inboxes",
    "create_inbox": "to create an inbox",
    "ensure_inbox": "to create an inbox",
    "get_inbox": "for an inbox",
    "update_inbox": "to change an inbox",
    "delete_inbox": "to delete an inbox",
    "pause_inbox": "to pause an inbox",
    "resume_inbox": "to resume an inbox",
    "list_messages": "for the list of messages",
    "lease_messages": "to lease messages",
    "acknowledge_messages": "to acknowledge messages",
    "release_messages": "to release messages",
    "events": "for the event stream",
}
"""By the name of the call, in words for users."""


def request_of(name: str) -> str:
    """What a call requests, as the beginning of a sentence."""
    return f"The request {_REQUESTS.get(name, name)}"


def failure(call: Call[Any], answer: Answer) -> WorkflowAPIError:
    """
    The exception for an answer that is not a 2xx (docs/service.md 11).

    Its class depends on the status, then on ``errors[0].code``. The body can be an ``errors`` envelope, only
    ``{detail}``, a token endpoint's ``{error, error_description}``, an HTML page, or empty.
    """
    found = _body(answer)
    body = found or {}
    first = _first_error(body)
    code = _string(first.get("code")) or _string(body.get("error"))
    code = code and one_line(code)
    detail = _detail(first, body, answer)
    kind = _kind(call, answer.status, code, found)
    explained = f"{request_of(call.name)} was answered with {answer.status}" + (f" ({code})" if code else "")
    return kind(
        f"{explained}: {one_line(detail)}" if detail else explained,
        status=answer.status,
        code=code,
        detail=detail,
        source=first.get("source") if isinstance(first.get("source"), dict) else None,
        meta=_meta(kind, first, body),
        retry_after=answer.retry_after(),
        rate_limit=answer.rate_limit(),
    )


def _kind(
    call: Call[Any], status: int, code: str | None, found: dict[str, Any] | None
) -> type[WorkflowAPIError]:
    if status == 400 and code == "lease_expired":
        return LeaseExpiredError
    if status == 400 and (code == "unauthenticated" or call.family is Family.TOKEN):
        return AuthenticationError
    if status == 400 and call.family is Family.GUESS and found is not None and "errors" not in found:
        return GuessRejectedError
    if status in (401, 403):
        return AuthenticationError
    if status == 404:
        return NotFoundError
    if status == 409:
        return InboxPausedError if isinstance((found or {}).get("inbox_attributes"), dict) else ConflictError
    if status == 429:
        return RateLimitError
    if status >= 500:
        return ServerError
    if status < 400:
        return WorkflowAPIError
    return InvalidRequestError


def _detail(first: dict[str, Any], body: dict[str, Any], answer: Answer) -> str:
    if 300 <= answer.status < 400:
        where = _host(answer.headers.get("location", ""))
        return f"it redirects to {where}, which is not followed; configure the final URL"
    messages = body.get("messages")
    if isinstance(messages, list):
        details = [_string(m.get("detail")) for m in messages if isinstance(m, dict)]
        joined = " ".join(d for d in details if d)
        if joined:
            return joined[:LONGEST_DETAIL]
    for source, field in (
        (first, "detail"),
        (first, "title"),
        (body, "detail"),
        (body, "error_description"),
    ):
        if text := _string(source.get(field)):
            return text[:LONGEST_DETAIL]
    return _phrase(answer.status)


def one_line(text: str) -> str:
    """A string of the service on one line, so that it cannot forge lines of a log; at most 500 characters."""
    return " ".join("".join(sign if sign.isprintable() else " " for sign in text[:LONGEST_DETAIL]).split())


def _host(location: str) -> str:
    try:
        return plain(urlsplit(location).hostname or "another path", 100)
    except ValueError:
        return "an invalid URL"


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""


def _meta(kind: type[WorkflowAPIError], first: dict[str, Any], body: dict[str, Any]) -> dict[str, Any]:
    if kind is InboxPausedError:
        return dict(body["inbox_attributes"])
    if kind is GuessRejectedError:
        return {"messages": body.get("messages") or []}
    meta = first.get("meta")
    return dict(meta) if isinstance(meta, dict) else {}


def _body(answer: Answer) -> dict[str, Any] | None:
    try:
        body = answer.json()
    except TransportError:
        return None
    return body if isinstance(body, dict) else None


def _first_error(body: dict[str, Any]) -> dict[str, Any]:
    errors = body.get("errors")
    if isinstance(errors, list) and errors and isinstance(errors[0], dict):
        return errors[0]
    return {}


def _string(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


class Stage(StrEnum):
    """What failed before a request was sent; the value begins the error message."""

    CONNECTION = "{host} cannot be reached"
    PROXY = "{host} cannot be reached through the proxy of the environment"
    TLS = "no secure connection to {host}"
    CERTIFICATE = "the certificate of {host} does not verify"


def no_answer(
    request: Request,
    stage: Stage,
    reason: str,
    *,
    sent: bool,
    timed_out: bool,
) -> TransportError:
    """
    The exception for a request without a complete answer; it names the host and no part of the request.

    :param stage: what failed, if nothing was sent.
    :param reason: from the library or the operating system, without the URL.
    :param sent: whether the service may have received the request.
    """
    host = host_of(request.url)
    if stage is Stage.CERTIFICATE:
        return TransportError(stage.value.format(host=host), sent=False, permanent=True)
    if timed_out:
        what = f"no complete answer from {host}" if sent else f"no connection to {host}"
        return TransportError(f"{what} within {round(request.timeout, 1):g} s", sent=sent, timed_out=True)
    what = f"the connection to {host} was lost" if sent else stage.value.format(host=host)
    return TransportError(f"{what}: {reason}", sent=sent)
