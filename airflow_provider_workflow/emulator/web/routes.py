"""The routes of the service: inboxes, tokens and authorization, guesses, templates, promotions."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from html import escape
from typing import Any, get_args
from urllib.parse import parse_qsl

from starlette.formparsers import MultiPartException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from airflow_provider_workflow.emulator.rules import workflows
from airflow_provider_workflow.emulator.rules.bodies import (
    EndBody,
    GuessBody,
    InboxBody,
    LeaseBody,
    UpdateBody,
)
from airflow_provider_workflow.emulator.rules.errors import (
    ServiceError,
    invalid_field,
    invalid_parameter,
    parameter_number,
)
from airflow_provider_workflow.emulator.rules.oauth import EVENTS, INBOX, PROMOTIONS, redirect_to
from airflow_provider_workflow.emulator.rules.records import MessageId
from airflow_provider_workflow.emulator.settings import InboxState
from airflow_provider_workflow.emulator.web.context import (
    Call,
    Handler,
    JsonResponse,
    Operation,
    error_response,
    media_type,
)
from airflow_provider_workflow.emulator.web.event_stream import EventStream

PREFIXES = ("/trigger-inbox/v1", "/trigger-inbox/api/v1")
MAX_PAGE = 1000
TOKEN_PATH = "/oauth/token"  # noqa: S105 - a path, no secret
NOT_STORED = {"Cache-Control": "no-store", "Pragma": "no-cache"}


def lease(call: Call) -> Any:
    """Lease messages (docs/service.md 4.2)."""
    body = call.body(LeaseBody)
    answer = call.store.leases.lease(call.inbox_id, body.lease_seconds, body.lease_limit)
    return answer, 201 if answer["lease_id"] else 200


def acknowledge(call: Call) -> Any:
    """Acknowledge messages (docs/service.md 4.3)."""
    answer = call.store.leases.acknowledge(*_leased(call))
    return answer, 201 if answer["acked_id"] else 200


def release(call: Call) -> Any:
    """Release messages (docs/service.md 4.3)."""
    answer = call.store.leases.release(*_leased(call))
    return answer, 201 if answer["released_id"] else 200


def _leased(call: Call) -> tuple[str, str, list[MessageId] | None]:
    """Read inbox id, lease id, and message ids or None for the whole lease."""
    call.store.inboxes.get(call.inbox_id)
    body = call.body(EndBody)
    call.store.messages.check_ids(call.inbox_id, body.message_ids)
    return call.inbox_id, body.lease_id, body.message_ids or None


def list_messages(call: Call) -> Any:
    """List messages (docs/service.md 4.4)."""
    limit = parameter_number(call.query, "limit", call.store.settings.page_size, 1, MAX_PAGE)
    page = call.store.messages.page(call.inbox_id, limit, call.query.get("cursor"))
    return {
        "next": _link(call, cursor=page.next) if page.next else None,
        "previous": _link(call, cursor=page.previous) if page.previous else None,
        "results": page.results,
    }


def list_inboxes(call: Call) -> Any:
    """List inboxes (docs/service.md 4.4)."""
    query = call.query
    limit = parameter_number(query, "limit", call.store.settings.page_size, 1, MAX_PAGE)
    offset = parameter_number(query, "offset", 0, 0)
    status = query.get("status")
    if status is not None and status not in get_args(InboxState):
        raise invalid_parameter("status", f"must be one of {', '.join(get_args(InboxState))}.")
    count, inboxes = call.store.inboxes.page(limit, offset, status, query.get("name", query.get("key")))
    return {
        "count": count,
        "next": _link(call, limit=limit, offset=offset + limit) if offset + limit < count else None,
        "previous": _link(call, limit=limit, offset=max(0, offset - limit)) if offset > 0 else None,
        "results": [inbox.view() for inbox in inboxes],
    }


def create_inbox(call: Call) -> Any:
    """Create an inbox (docs/service.md 4.1)."""
    name, subscription, url = _new_inbox(call)
    return call.store.inboxes.create(name, subscription, url).view(), 201


def ensure_inbox(call: Call) -> Any:
    """Find an inbox, or create it (docs/service.md 4.1)."""
    name, subscription, url = _new_inbox(call)
    if name is None:
        raise invalid_field("name", "this field is required.")
    inbox, created = call.store.inboxes.ensure(name, subscription, url)
    return inbox.view(), 201 if created else 200


def _new_inbox(call: Call) -> tuple[str | None, dict[str, Any], str | None]:
    body = call.body(InboxBody)
    if body.name and body.key and body.name != body.key:
        raise invalid_field("key", "must be the same as name.")
    if any(map(body.subscription.is_of, call.store.settings.unknown_app_keys)):
        raise invalid_field("subscription.app_key", f"there is no app {body.subscription.app_key}.")
    return body.name or body.key, body.subscription.model_dump(), body.notification_url


def update_inbox(call: Call) -> Any:
    """Change the notification URL (docs/service.md 4.1)."""
    body = call.body(UpdateBody)
    if "notification_url" not in body.model_fields_set:
        return call.store.inboxes.get(call.inbox_id).view()
    return call.store.inboxes.update(call.inbox_id, body.notification_url).view()


def resume_inbox(call: Call) -> Any:
    """Resume a paused inbox (docs/service.md 4.1)."""
    inbox = call.store.inboxes.resume(call.inbox_id)
    return inbox.view(), 202 if inbox.status == "initializing" else 200


def events(call: Call) -> Response:
    """Open an event stream (docs/service.md 5)."""
    assert call.token is not None  # noqa: S101 - admitted
    inbox_id = call.store.inboxes.get(call.inbox_id).id
    return EventStream(call.emulator.streams, call.store, inbox_id, call.token)


def _link(call: Call, **query: Any) -> str:
    return str(call.request.url.include_query_params(**query))


def token(call: Call) -> Response | tuple[Any, int]:
    """Issue tokens (docs/service.md 9.1)."""
    try:
        response = call.store.tokens.grant(call.form, basic_credentials(call.request))
    except ServiceError as error:
        return error_response(error, NOT_STORED)
    return JsonResponse(response, headers=NOT_STORED)


async def read_form(request: Request) -> dict[str, str]:
    """
    Read ``multipart/form-data`` or ``application/x-www-form-urlencoded``; anything else is empty.

    Starlette would read the second as Latin-1 if it is not percent-encoded.
    """
    kind = media_type(request)
    if kind == "application/x-www-form-urlencoded":
        body = await request.body()
        return dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True))
    if kind != "multipart/form-data":
        return {}
    try:
        async with request.form() as form:
            return {
                name: part if isinstance(part, str) else (await part.read()).decode("utf-8", "replace")
                for name, part in form.items()
            }
    except MultiPartException:
        return {}


def basic_credentials(request: Request) -> tuple[str, str] | None:
    """Read client ID and secret of HTTP Basic; None without it, empty strings if it is malformed."""
    kind, _, value = (request.headers.get("authorization") or "").partition(" ")
    if kind.lower() != "basic":
        return None
    try:
        user, _, password = base64.b64decode(value, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return "", ""
    return user, password


def authorize(call: Call) -> Response:
    """Show the authorization page (docs/service.md 10)."""
    return _rejected_page(call, call.query) or HTMLResponse(_approval_form(call.query))


def decide(call: Call) -> Response:
    """Act on the user's decision."""
    query = dict(call.form)
    decision = query.pop("decision", "deny")
    if rejected := _rejected_page(call, query):
        return rejected
    if decision == "approve":
        return RedirectResponse(call.store.tokens.approve(query), 302)
    return RedirectResponse(redirect_to(query, error="access_denied"), 302)


def _rejected_page(call: Call, query: Mapping[str, str]) -> Response | None:
    try:
        call.store.tokens.check_page(query)
    except ServiceError as error:
        return HTMLResponse(_page("Cannot authorize", escape(error.detail)), 400)
    fault = call.store.tokens.page_fault(query)
    return RedirectResponse(redirect_to(query, error=fault), 302) if fault else None


def _approval_form(query: Mapping[str, str]) -> str:
    hidden = "".join(
        f'<input type="hidden" name="{escape(name)}" value="{escape(value)}">'
        for name, value in query.items()
    )
    scopes = "".join(f"<li>{escape(scope)}</li>" for scope in query["scope"].split())
    buttons = (
        '<button name="decision" value="approve">Approve</button> '
        '<button name="decision" value="deny">Deny</button>'
    )
    body = (
        f"<p>{escape(query['client_id'])} asks for:</p><ul>{scopes}</ul>"
        f'<form method="post" action="/v2/authorize">{hidden}{buttons}</form>'
    )
    return _page("Authorize the application?", body)


def _page(title: str, body: str) -> str:
    return f"<!doctype html><title>{title}</title><h1>{title}</h1>{body}\n"


def guess(call: Call) -> Any:
    """Guess a workflow (docs/service.md 13)."""
    _check_client(call)
    try:
        description = call.body(GuessBody).description
    except ServiceError as problem:
        # Both forms of a 400 (docs/service.md 13.2).
        body = {**problem.body, "messages": [{"detail": problem.detail}]}
        raise ServiceError(400, problem.code, problem.detail, body=body) from None
    return workflows.guess(description, _base_url(call))


def templates(call: Call) -> Any:
    """List templates (docs/service.md 7)."""
    _check_client(call)
    apps = [slug.strip() for slug in call.query.get("apps", "").split(",") if slug.strip()]
    limit = parameter_number(call.query, "limit", workflows.DEFAULT_LIMIT, 1, workflows.MAX_LIMIT)
    offset = parameter_number(call.query, "offset", 0, 0)
    return workflows.templates(_base_url(call), apps, limit, offset)


def unenroll(call: Call) -> Response:
    """End an enrollment (docs/service.md 8)."""
    call.store.unenroll(call.request.path_params["enrollment_id"])
    return Response(status_code=204)


def editor(call: Call) -> Response:
    """The page that ``prefilled_url`` of a guess opens."""
    steps = call.request.query_params.getlist("step")
    return HTMLResponse(_page("Workflow editor", "".join(f"<li>{escape(step)}</li>" for step in steps)))


def _base_url(call: Call) -> str:
    return str(call.request.base_url).removesuffix("/")


def _check_client(call: Call) -> None:
    if call.query.get("client_id") != call.store.settings.client_id:
        detail = "client_id: missing or unknown."
        raise ServiceError(401, "invalid_client_id", detail, source={"parameter": "client_id"})


# Frequent calls first, as routes are tried in order.
_INBOX_TABLE: tuple[tuple[str, str, str, Handler], ...] = (
    ("lease", "POST", "/inboxes/{inbox_id}/messages/lease", lease),
    ("ack", "POST", "/inboxes/{inbox_id}/messages/ack", acknowledge),
    ("release", "POST", "/inboxes/{inbox_id}/messages/release", release),
    ("list_messages", "GET", "/inboxes/{inbox_id}/messages", list_messages),
    ("get_inbox", "GET", "/inboxes/{inbox_id}", lambda call: call.store.inboxes.get(call.inbox_id).view()),
    ("update_inbox", "PATCH", "/inboxes/{inbox_id}", update_inbox),
    (
        "delete_inbox",
        "DELETE",
        "/inboxes/{inbox_id}",
        lambda call: (call.store.inboxes.delete(call.inbox_id).view(), 202),
    ),
    ("list_inboxes", "GET", "/inboxes", list_inboxes),
    ("create_inbox", "POST", "/inboxes", create_inbox),
    ("ensure_inbox", "PUT", "/inboxes", ensure_inbox),
    (
        "pause_inbox",
        "POST",
        "/inboxes/{inbox_id}/pause",
        lambda call: call.store.inboxes.pause(call.inbox_id).view(),
    ),
    ("resume_inbox", "POST", "/inboxes/{inbox_id}/resume", resume_inbox),
    ("events", "GET", "/inboxes/{inbox_id}/events", events),
)

OPERATIONS = (
    *(
        Operation(name, method, prefix + path, "inbox", handler, EVENTS if name == "events" else INBOX)
        for prefix in PREFIXES
        for name, method, path, handler in _INBOX_TABLE
    ),
    Operation("token", "POST", TOKEN_PATH, "token", token),
    Operation("token", "POST", f"{TOKEN_PATH}/", "token", token),
    Operation("authorize", "GET", "/v2/authorize", "page", authorize),
    Operation("authorize", "POST", "/v2/authorize", "page", decide),
    Operation("guess", "POST", "/v2/guess", "guess", guess),
    Operation("templates", "GET", "/v1/workflow-templates", "templates", templates),
    Operation("unenroll", "DELETE", "/v2/promotions/{enrollment_id}", "promotions", unenroll, PROMOTIONS),
    Operation("editor", "GET", "/editor", "page", editor),
)
