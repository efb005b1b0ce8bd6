"""The routes of the trigger inbox (docs/service.md 4)."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from airflow_provider_workflow.emulator.rules import validation
from airflow_provider_workflow.emulator.rules.errors import invalid_parameter
from airflow_provider_workflow.emulator.rules.oauth import EVENTS, INBOX
from airflow_provider_workflow.emulator.rules.records import MessageId
from airflow_provider_workflow.emulator.settings import INBOX_STATES
from airflow_provider_workflow.emulator.web.context import (
    Emulator,
    Handler,
    JsonResponse,
    Operation,
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
    seconds = validation.whole_number(body, "lease_seconds", 300, 1, 3600)
    limit = validation.whole_number(body, "lease_limit", 10, 1, 100)
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
    lease_id = validation.required_uuid(body, "lease_id")
    return inbox_id, lease_id, validation.optional_ids(body, "message_ids", known)


async def list_messages(emulator: Emulator, request: Request) -> Response:
    query = request.query_params
    size = emulator.store.settings.page_size
    limit = validation.parameter_number(query, "limit", size, 1, MAX_PAGE)
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
    size = emulator.store.settings.page_size
    limit = validation.parameter_number(query, "limit", size, 1, MAX_PAGE)
    offset = validation.parameter_number(query, "offset", 0, 0, None)
    status = query.get("status")
    if status is not None and status not in INBOX_STATES:
        raise invalid_parameter("status", f"must be one of {', '.join(INBOX_STATES)}.")
    count, found = emulator.store.inboxes.page(limit, offset, status, query.get("name", query.get("key")))
    kept: dict[str, str] = {name: query[name] for name in ("status", "name", "key") if name in query}

    def at(place: int) -> str:
        return _link(request, {**kept, "limit": str(limit), "offset": str(place)})

    following = at(offset + limit) if offset + limit < count else None
    previous = at(max(0, offset - limit)) if offset > 0 else None
    results = [each.view() for each in found]
    return JsonResponse({"count": count, "next": following, "previous": previous, "results": results})


async def create_inbox(emulator: Emulator, request: Request) -> Response:
    body = await read_json(request)
    name = validation.inbox_name(body, required=False)
    subscription, url = _subscription(emulator, body), validation.notification_url(body)
    return JsonResponse(emulator.store.inboxes.create(name, subscription, url).view(), 201)


async def ensure_inbox(emulator: Emulator, request: Request) -> Response:
    body = await read_json(request)
    name = str(validation.inbox_name(body, required=True))
    subscription, url = _subscription(emulator, body), validation.notification_url(body)
    inbox, created = emulator.store.inboxes.ensure(name, subscription, url)
    return JsonResponse(inbox.view(), 201 if created else 200)


def _subscription(emulator: Emulator, body: dict[str, Any]) -> dict[str, Any]:
    return validation.subscription(body, emulator.store.settings.unknown_app_keys)


async def update_inbox(emulator: Emulator, request: Request) -> Response:
    inbox_id, body = request.path_params["inbox_id"], await read_json(request)
    inbox = emulator.store.inboxes.get(inbox_id)
    if "notification_url" in body:
        inbox = emulator.store.inboxes.update(inbox_id, validation.notification_url(body))
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


# Frequent calls first, as routes are tried in order.
_TABLE: tuple[tuple[str, str, str, Handler], ...] = (
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

OPERATIONS = tuple(
    Operation(name, method, prefix + path, "inbox", handler)
    for prefix in PREFIXES
    for name, method, path, handler in (
        *((name, method, path, admitted(handler)) for name, method, path, handler in _TABLE),
        ("events", "GET", "/inboxes/{inbox_id}/events", events),
    )
)
