"""The routes of the service: inboxes, tokens and authorization, guesses, templates, promotions."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from html import escape
from typing import Any
from urllib.parse import parse_qsl

from starlette.formparsers import MultiPartException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from airflow_provider_workflow.emulator.rules import errors
from airflow_provider_workflow.emulator.rules.errors import ServiceError, invalid_parameter
from airflow_provider_workflow.emulator.rules.oauth import EVENTS, INBOX, PROMOTIONS, redirect_to
from airflow_provider_workflow.emulator.rules.records import MessageId
from airflow_provider_workflow.emulator.rules.workflows import DEFAULT_LIMIT, MAX_LIMIT
from airflow_provider_workflow.emulator.rules.workflows import guess as guess_workflow
from airflow_provider_workflow.emulator.rules.workflows import templates as list_templates
from airflow_provider_workflow.emulator.settings import INBOX_STATES
from airflow_provider_workflow.emulator.web.context import (
    Emulator,
    Handler,
    JsonResponse,
    Operation,
    error_response,
    media_type,
    read_json,
)
from airflow_provider_workflow.emulator.web.notices import EventStream

PREFIXES = ("/trigger-inbox/v1", "/trigger-inbox/api/v1")
MAX_PAGE = 1000


def admitted(handler: Handler) -> Handler:
    """Check the token first (docs/service.md 14.4)."""

    async def inside(emulator: Emulator, request: Request) -> Response:
        emulator.store.tokens.admit(request.headers.get("authorization"), INBOX)
        return await handler(emulator, request)

    return inside


async def lease(emulator: Emulator, request: Request) -> Response:
    body = await read_json(request)
    seconds = errors.whole_number(body, "lease_seconds", 300, 1, 3600)
    limit = errors.whole_number(body, "lease_limit", 10, 1, 100)
    answer = emulator.store.leases.lease(request.path_params["inbox_id"], seconds, limit)
    return JsonResponse(answer, 201 if answer["lease_id"] else 200)


async def acknowledge(emulator: Emulator, request: Request) -> Response:
    answer = emulator.store.leases.acknowledge(*await _leased(emulator, request))
    return JsonResponse(answer, 201 if answer["acked_id"] else 200)


async def release(emulator: Emulator, request: Request) -> Response:
    answer = emulator.store.leases.release(*await _leased(emulator, request))
    return JsonResponse(answer, 201 if answer["released_id"] else 200)


async def _leased(emulator: Emulator, request: Request) -> tuple[str, str, list[MessageId] | None]:
    """Read inbox id, lease id, and message ids or None for the whole lease."""
    inbox_id, body = request.path_params["inbox_id"], await read_json(request)
    known = emulator.store.messages.queue(inbox_id).ids
    lease_id = errors.required_uuid(body, "lease_id")
    return inbox_id, lease_id, errors.optional_ids(body, "message_ids", known)


async def list_messages(emulator: Emulator, request: Request) -> Response:
    query = request.query_params
    size = emulator.store.settings.page_size
    limit = errors.parameter_number(query, "limit", size, 1, MAX_PAGE)
    page = emulator.store.messages.page(request.path_params["inbox_id"], limit, query.get("cursor"))
    extra = {"limit": str(limit)} if "limit" in query else {}
    links = {
        name: _link(request, {**extra, "cursor": cursor}) if cursor else None
        for name, cursor in (("next", page.next), ("previous", page.previous))
    }
    return JsonResponse({**links, "results": page.results})


async def get_inbox(emulator: Emulator, request: Request) -> Response:
    return JsonResponse(emulator.store.inboxes.get(request.path_params["inbox_id"]).view())


async def list_inboxes(emulator: Emulator, request: Request) -> Response:
    query = request.query_params
    limit = errors.parameter_number(query, "limit", emulator.store.settings.page_size, 1, MAX_PAGE)
    offset = errors.parameter_number(query, "offset", 0, 0, None)
    status = query.get("status")
    if status is not None and status not in INBOX_STATES:
        raise invalid_parameter("status", f"must be one of {', '.join(INBOX_STATES)}.")
    count, inboxes = emulator.store.inboxes.page(limit, offset, status, query.get("name", query.get("key")))
    filters: dict[str, str] = {name: query[name] for name in ("status", "name", "key") if name in query}

    def at(place: int) -> str:
        return _link(request, {**filters, "limit": str(limit), "offset": str(place)})

    following = at(offset + limit) if offset + limit < count else None
    previous = at(max(0, offset - limit)) if offset > 0 else None
    results = [inbox.view() for inbox in inboxes]
    return JsonResponse({"count": count, "next": following, "previous": previous, "results": results})


async def create_inbox(emulator: Emulator, request: Request) -> Response:
    body = await read_json(request)
    name = errors.inbox_name(body, required=False)
    subscription, url = _subscription(emulator, body), errors.notification_url(body)
    return JsonResponse(emulator.store.inboxes.create(name, subscription, url).view(), 201)


async def ensure_inbox(emulator: Emulator, request: Request) -> Response:
    body = await read_json(request)
    name = str(errors.inbox_name(body, required=True))
    subscription, url = _subscription(emulator, body), errors.notification_url(body)
    inbox, created = emulator.store.inboxes.ensure(name, subscription, url)
    return JsonResponse(inbox.view(), 201 if created else 200)


def _subscription(emulator: Emulator, body: dict[str, Any]) -> dict[str, Any]:
    return errors.subscription(body, emulator.store.settings.unknown_app_keys)


async def update_inbox(emulator: Emulator, request: Request) -> Response:
    inbox_id, body = request.path_params["inbox_id"], await read_json(request)
    inbox = emulator.store.inboxes.get(inbox_id)
    if "notification_url" in body:
        inbox = emulator.store.inboxes.update(inbox_id, errors.notification_url(body))
    return JsonResponse(inbox.view())


async def delete_inbox(emulator: Emulator, request: Request) -> Response:
    return JsonResponse(emulator.store.inboxes.delete(request.path_params["inbox_id"]).view(), 202)


async def pause_inbox(emulator: Emulator, request: Request) -> Response:
    return JsonResponse(emulator.store.inboxes.pause(request.path_params["inbox_id"]).view())


async def resume_inbox(emulator: Emulator, request: Request) -> Response:
    inbox = emulator.store.inboxes.resume(request.path_params["inbox_id"])
    return JsonResponse(inbox.view(), 202 if inbox.status == "initializing" else 200)


async def events(emulator: Emulator, request: Request) -> Response:
    token = emulator.store.tokens.admit(request.headers.get("authorization"), EVENTS)
    inbox_id = emulator.store.inboxes.get(request.path_params["inbox_id"]).id
    return EventStream(emulator.streams, emulator.store, inbox_id, token)


def _link(request: Request, query: dict[str, str]) -> str:
    return str(request.url.replace_query_params(**query))


TOKEN_PATH = "/oauth/token"  # noqa: S105 - a path, no secret
NOT_STORED = {"Cache-Control": "no-store", "Pragma": "no-cache"}


async def token(emulator: Emulator, request: Request) -> Response:
    """Issue tokens."""
    form = await read_form(request)
    try:
        granted = emulator.store.oauth.grant(form, basic_credentials(request))
    except ServiceError as error:
        return error_response(error, NOT_STORED)
    return JsonResponse(granted, headers=NOT_STORED)


async def authorize(emulator: Emulator, request: Request) -> Response:
    """Show the page, or redirect at once with ``auto_approve``."""
    return _decide(
        emulator, request.query_params, "approve" if emulator.store.settings.auto_approve else None
    )


async def decide(emulator: Emulator, request: Request) -> Response:
    """Act on the user's decision."""
    form = _urlencoded(await request.body())
    decision = form.pop("decision", "deny")
    return _decide(emulator, form, decision)


async def read_form(request: Request) -> dict[str, str]:
    """
    Read ``multipart/form-data`` or ``application/x-www-form-urlencoded``; anything else is empty.

    Starlette would read the second as Latin-1 if it is not percent-encoded.
    """
    kind = media_type(request)
    if kind == "application/x-www-form-urlencoded":
        return _urlencoded(await request.body())
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


def _urlencoded(body: bytes) -> dict[str, str]:
    return dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True))


def _decide(emulator: Emulator, query: Mapping[str, str], decision: str | None) -> Response:
    oauth = emulator.store.oauth
    try:
        oauth.check_page(query)
    except ServiceError as error:
        return HTMLResponse(_page("Cannot authorize", escape(error.detail)), 400)
    fault = oauth.page_fault(query)
    if fault:
        return RedirectResponse(redirect_to(query, error=fault), 302)
    if decision is None:
        return HTMLResponse(_approval_form(query))
    if decision == "approve":
        return RedirectResponse(oauth.approve(query), 302)
    return RedirectResponse(redirect_to(query, error="access_denied"), 302)


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


async def guess(emulator: Emulator, request: Request) -> Response:
    _check_client(emulator, request)
    try:
        body = await read_json(request)
    except ServiceError as problem:
        # Both forms of a 400 (docs/service.md 13.2).
        raise ServiceError(
            400, problem.code, problem.detail, body={**problem.body, "messages": [{"detail": problem.detail}]}
        ) from None
    return JsonResponse(guess_workflow(body.get("description"), _base_url(request)))


async def templates(emulator: Emulator, request: Request) -> Response:
    _check_client(emulator, request)
    query = request.query_params
    apps = [slug.strip() for slug in query.get("apps", "").split(",") if slug.strip()]
    limit = errors.parameter_number(query, "limit", DEFAULT_LIMIT, 1, MAX_LIMIT)
    offset = errors.parameter_number(query, "offset", 0, 0, None)
    return JsonResponse(list_templates(_base_url(request), apps, limit, offset))


async def unenroll(emulator: Emulator, request: Request) -> Response:
    emulator.store.tokens.admit(request.headers.get("authorization"), PROMOTIONS)
    emulator.store.promotions.unenroll(request.path_params["enrollment_id"])
    return Response(status_code=204)


async def editor(_: Emulator, request: Request) -> Response:
    """The page that ``prefilled_url`` of a guess opens."""
    items = "".join(f"<li>{escape(value)}</li>" for _, value in request.query_params.multi_items() if value)
    page = f"<!doctype html><title>Workflow editor</title><h1>Workflow editor</h1><ol>{items}</ol>\n"
    return HTMLResponse(page)


def _base_url(request: Request) -> str:
    return str(request.base_url).removesuffix("/")


def _check_client(emulator: Emulator, request: Request) -> None:
    if request.query_params.get("client_id") != emulator.store.settings.client_id:
        detail = "client_id: missing or unknown."
        raise ServiceError(401, "invalid_client_id", detail, source={"parameter": "client_id"})


# Frequent calls first, as routes are tried in order.
_INBOX_TABLE: tuple[tuple[str, str, str, Handler], ...] = (
    ("lease", "POST", "/inboxes/{inbox_id}/messages/lease", lease),
    ("ack", "POST", "/inboxes/{inbox_id}/messages/ack", acknowledge),
    ("release", "POST", "/inboxes/{inbox_id}/messages/release", release),
    ("list_messages", "GET", "/inboxes/{inbox_id}/messages", list_messages),
    ("get_inbox", "GET", "/inboxes/{inbox_id}", get_inbox),
    ("update_inbox", "PATCH", "/inboxes/{inbox_id}", update_inbox),
    ("delete_inbox", "DELETE", "/inboxes/{inbox_id}", delete_inbox),
    ("list_inboxes", "GET", "/inboxes", list_inboxes),
    ("create_inbox", "POST", "/inboxes", create_inbox),
    ("ensure_inbox", "PUT", "/inboxes", ensure_inbox),
    ("pause_inbox", "POST", "/inboxes/{inbox_id}/pause", pause_inbox),
    ("resume_inbox", "POST", "/inboxes/{inbox_id}/resume", resume_inbox),
)

_INBOX_OPERATIONS = tuple(
    Operation(name, method, prefix + path, "inbox", handler)
    for prefix in PREFIXES
    for name, method, path, handler in (
        *((name, method, path, admitted(handler)) for name, method, path, handler in _INBOX_TABLE),
        ("events", "GET", "/inboxes/{inbox_id}/events", events),
    )
)

OPERATIONS = (
    *_INBOX_OPERATIONS,
    Operation("token", "POST", TOKEN_PATH, "token", token),
    Operation("token", "POST", f"{TOKEN_PATH}/", "token", token),
    Operation("authorize", "GET", "/v2/authorize", "page", authorize),
    Operation("authorize", "POST", "/v2/authorize", "page", decide),
    Operation("guess", "POST", "/v2/guess", "guess", guess),
    Operation("templates", "GET", "/v1/workflow-templates", "templates", templates),
    Operation("unenroll", "DELETE", "/v2/promotions/{enrollment_id}", "promotions", unenroll),
    Operation("editor", "GET", "/editor", "page", editor),
)
