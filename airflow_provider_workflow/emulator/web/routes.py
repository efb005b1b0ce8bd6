"""The routes of the service: inboxes, tokens and authorization, guesses, templates, promotions."""

from __future__ import annotations

import base64
import binascii
from html import escape
from typing import Any, get_args

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
from airflow_provider_workflow.emulator.settings import InboxState
from airflow_provider_workflow.emulator.web.context import (
    Call,
    Handler,
    Operation,
)
from airflow_provider_workflow.emulator.web.event_stream import EventStream

PREFIXES = ("/trigger-inbox/v1", "/trigger-inbox/api/v1")
MAX_PAGE = 1000
TOKEN_PATH = "/oauth/token"  # noqa: S105 - a path, no secret


def lease(call: Call) -> Any:
    body = call.body(LeaseBody)
    answer = call.store.messages.lease(call.inbox_id, body.lease_seconds, body.lease_limit)
    return answer, 201 if answer["lease_id"] else 200


def acknowledge(call: Call) -> Any:
    inbox_id, body = call.inbox_id, call.body(EndBody)
    answer = call.store.messages.acknowledge(inbox_id, body.lease_id, body.message_ids or None)
    return answer, 201 if answer["acked_id"] else 200


def release(call: Call) -> Any:
    inbox_id, body = call.inbox_id, call.body(EndBody)
    answer = call.store.messages.release(inbox_id, body.lease_id, body.message_ids or None)
    return answer, 201 if answer["released_id"] else 200


def list_messages(call: Call) -> Any:
    limit = parameter_number(call.query, "limit", call.store.settings.page_size, 1, MAX_PAGE)
    messages, cursor = call.store.messages.page(call.inbox_id, limit, call.query.get("cursor"))
    following = _link(call, cursor=cursor) if cursor else None
    return {"next": following, "previous": None, "results": messages}


def list_inboxes(call: Call) -> Any:
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
    name, subscription, url = _new_inbox(call)
    return call.store.inboxes.create(name, subscription, url).view(), 201


def ensure_inbox(call: Call) -> Any:
    name, subscription, url = _new_inbox(call)
    if name is None:
        raise invalid_field("name", "this field is required.")
    inbox, created = call.store.inboxes.ensure(name, subscription, url)
    return inbox.view(), 201 if created else 200


def _new_inbox(call: Call) -> tuple[str | None, dict[str, Any], str | None]:
    body = call.body(InboxBody)
    if body.name and body.key and body.name != body.key:
        raise invalid_field("key", "must be the same as name.")
    return body.name or body.key, body.subscription.model_dump(), body.notification_url


def update_inbox(call: Call) -> Any:
    body = call.body(UpdateBody)
    return call.store.inboxes.update(call.inbox_id, **body.model_dump(exclude_unset=True)).view()


def resume_inbox(call: Call) -> Any:
    inbox = call.store.inboxes.resume(call.inbox_id)
    return inbox.view(), 202 if inbox.status == "initializing" else 200


def events(call: Call) -> Response:
    return EventStream(call.emulator.streams, call.store, call.inbox_id, call.token)


def _link(call: Call, **query: Any) -> str:
    return str(call.request.url.include_query_params(**query))


def token(call: Call) -> Any:
    return call.store.tokens.grant(call.form, _basic_credentials(call.request))


async def read_form(request: Request) -> dict[str, str]:
    """Read the fields of a form of either encoding; of any other body none."""
    try:
        async with request.form() as form:
            return {name: part for name, part in form.items() if isinstance(part, str)}
    except MultiPartException:
        return {}


def _basic_credentials(request: Request) -> tuple[str, str] | None:
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
    """Show the authorization page (docs/service.md 10), or act on the user's decision on it."""
    decided = call.request.method == "POST"
    query = dict(call.form if decided else call.query)
    decision = query.pop("decision", None)
    try:
        fault = call.store.tokens.page_fault(query)
    except ServiceError as error:
        return HTMLResponse(_page("Cannot authorize", escape(error.detail)), 400)
    if fault:
        return RedirectResponse(redirect_to(query, error=fault), 302)
    if decided and decision == "approve":
        return RedirectResponse(call.store.tokens.approve(query), 302)
    if decided:
        return RedirectResponse(redirect_to(query, error="access_denied"), 302)
    fields = "".join(
        f'<input type="hidden" name="{escape(name)}" value="{escape(value)}">'
        for name, value in query.items()
    )
    scopes = "".join(f"<li>{escape(scope)}</li>" for scope in query["scope"].split())
    body = (
        f"<p>{escape(query['client_id'])} asks for:</p><ul>{scopes}</ul>"
        f'<form method="post" action="/v2/authorize">{fields}'
        '<button name="decision" value="approve">Approve</button> '
        '<button name="decision" value="deny">Deny</button></form>'
    )
    return HTMLResponse(_page("Authorize the application?", body))


def _page(title: str, body: str) -> str:
    return f"<!doctype html><title>{title}</title><h1>{title}</h1>{body}\n"


def guess(call: Call) -> Any:
    _check_client(call)
    try:
        description = call.body(GuessBody).description
    except ServiceError as problem:
        # Both forms of a 400 (docs/service.md 13.2).
        body = {**problem.body, "messages": [{"detail": problem.detail}]}
        raise ServiceError(400, problem.code, problem.detail, body=body) from None
    return workflows.guess(description, _base_url(call))


def templates(call: Call) -> Any:
    _check_client(call)
    apps = [slug.strip() for slug in call.query.get("apps", "").split(",") if slug.strip()]
    limit = parameter_number(call.query, "limit", workflows.DEFAULT_LIMIT, 1, workflows.MAX_LIMIT)
    offset = parameter_number(call.query, "offset", 0, 0)
    return workflows.templates(_base_url(call), apps, limit, offset)


def unenroll(_: Call) -> Response:
    """End an enrollment; any id is taken as one (docs/service.md 8)."""
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
    Operation("authorize", "POST", "/v2/authorize", "page", authorize),
    Operation("guess", "POST", "/v2/guess", "guess", guess),
    Operation("templates", "GET", "/v1/workflow-templates", "templates", templates),
    Operation("unenroll", "DELETE", "/v2/promotions/{enrollment_id}", "promotions", unenroll, PROMOTIONS),
    Operation("editor", "GET", "/editor", "page", editor),
)
