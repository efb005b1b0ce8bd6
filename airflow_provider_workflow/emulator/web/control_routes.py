"""
The control routes (``/_emulator/...``).

They do on demand what the real service does by itself, configure faults, and show the requests.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, fields
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from airflow_provider_workflow.emulator.rules import validation
from airflow_provider_workflow.emulator.rules.errors import invalid_field
from airflow_provider_workflow.emulator.rules.records import Inbox, iso
from airflow_provider_workflow.emulator.settings import Settings
from airflow_provider_workflow.emulator.web.context import Emulator, Operation
from airflow_provider_workflow.emulator.web.json_bodies import JsonResponse, read_any_json

PREFIX = "/_emulator"


async def put_messages(emulator: Emulator, request: Request) -> Response:
    """
    ``{inbox, payloads, ids?, attributes?, create?, announce?}``: put messages into an inbox.

    ``ids`` chooses their ids: strings, numbers, or null for a message without an id.
    """
    body = await read_any_json(request)
    payloads, ids = body.get("payloads"), body.get("ids")
    if not isinstance(payloads, list):
        raise invalid_field("payloads", "must be a list, one entry per message.")
    if not isinstance(ids, (list, type(None))):
        raise invalid_field("ids", "must be a list, one entry per message.")
    with emulator.store.core:
        if body.get("create"):
            emulator.store.inboxes.open(validation.required_text(body, "inbox"))
        put = emulator.store.messages.put(
            _inbox(emulator, body).id,
            payloads,
            ids=ids,
            attributes=body.get("attributes"),
            announce=body.get("announce", True),
        )
    note = (
        f"Dropped: the inbox is {put.status}, and only an active inbox accepts messages."
        if put.dropped
        else None
    )
    return JsonResponse({"ids": put.ids, "dropped": put.dropped, "note": note})


async def set_attributes(emulator: Emulator, request: Request) -> Response:
    """``{inbox, message_id, attributes}``: set attributes of a message."""
    body = await read_any_json(request)
    inbox = _inbox(emulator, body)
    emulator.store.messages.set_attributes(inbox.id, body.get("message_id"), body.get("attributes") or {})
    return JsonResponse({})


async def expire_leases(emulator: Emulator, request: Request) -> Response:
    """``{inbox?, lease_id?}``: end one lease, those of an inbox, or all."""
    body = await read_any_json(request)
    inbox_id = _inbox(emulator, body).id if "inbox" in body else None
    return JsonResponse({"expired": emulator.store.leases.expire(inbox_id, body.get("lease_id"))})


async def open_inbox(emulator: Emulator, request: Request) -> Response:
    """``{name, subscription?}``: create an active inbox unless it exists."""
    body = await read_any_json(request)
    subscription = validation.subscription(body) if "subscription" in body else None
    inbox = emulator.store.inboxes.open(validation.required_text(body, "name"), subscription)
    return JsonResponse(inbox.view())


async def force_state(emulator: Emulator, request: Request) -> Response:
    """``{inbox, status, paused_reason?}``: set the state of an inbox."""
    body = await read_any_json(request)
    status = validation.required_text(body, "status")
    inbox = emulator.store.inboxes.force(_inbox(emulator, body).id, status, body.get("paused_reason"))
    return JsonResponse(inbox.view())


async def fail_initialization(emulator: Emulator, request: Request) -> Response:
    """``{name?, times?}``: make the next initializations fail, of any inbox or of that name."""
    body = await read_any_json(request)
    emulator.store.inboxes.fail_next(body.get("name"), validation.whole_number(body, "times", 1, 1, 10**6))
    return JsonResponse({})


async def summarize(emulator: Emulator, request: Request) -> Response:
    """Describe an inbox with its messages and leases; ``?messages=0`` for only the counts."""
    inbox = emulator.store.inboxes.find(request.path_params["inbox"])
    detailed = request.query_params.get("messages") not in ("0", "false")
    return JsonResponse(emulator.store.messages.summary(inbox.id, with_messages=detailed))


async def issue_token(emulator: Emulator, request: Request) -> Response:
    """``{scope?, grant?}``: issue an access token without the token endpoint."""
    body = await read_any_json(request)
    token = emulator.store.tokens.issue(
        body.get("scope", "external"), body.get("grant", "client_credentials")
    )
    return JsonResponse({"access_token": token.value, "expires_at": token.expires_at})


async def expire_tokens(emulator: Emulator, request: Request) -> Response:
    """``{token?}``: expire one access token, or all."""
    body = await read_any_json(request)
    return JsonResponse({"expired": emulator.store.tokens.expire(body.get("token"))})


async def show_clock(emulator: Emulator, _: Request) -> Response:
    """Show the time."""
    now = emulator.store.clock.now()
    return JsonResponse({"now": now, "iso": iso(now)})


async def advance_clock(emulator: Emulator, request: Request) -> Response:
    """``{seconds}``: move the clock."""
    seconds = (await read_any_json(request)).get("seconds")
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)):
        raise invalid_field("seconds", "must be a number.")
    emulator.store.clock.advance(seconds)
    return await show_clock(emulator, request)


async def set_limit(emulator: Emulator, request: Request) -> Response:
    """``{family, limit, window_seconds?}``: limit a family of calls; null restores the default."""
    body = await read_any_json(request)
    limit = None if body.get("limit") is None else validation.whole_number(body, "limit", 0, 0, 10**9)
    family = validation.required_text(body, "family")
    emulator.store.limits.set(family, limit, body.get("window_seconds", 3600))
    return JsonResponse({})


async def settings(emulator: Emulator, request: Request) -> Response:
    """Show the settings; change those in the body, if any."""
    changes: dict[str, Any] = await read_any_json(request)
    unknown = set(changes) - {each.name for each in fields(Settings)}
    if unknown:
        raise invalid_field(sorted(unknown)[0], "there is no such setting.")
    for name in ("redirect_uris", "unknown_app_keys"):
        if name in changes:
            changes[name] = validation.texts(changes, name)
    for app_key in changes.get("unknown_app_keys", ()):
        validation.resolve_app_key(app_key)
    return JsonResponse(asdict(emulator.store.configure(**changes)))


async def reset(emulator: Emulator, _: Request) -> Response:
    """Reset everything."""
    emulator.reset()
    return JsonResponse({})


async def add_fault(emulator: Emulator, request: Request) -> Response:
    """The fields of :class:`airflow_provider_workflow.emulator.faults.Fault`: make requests fail."""
    return JsonResponse(asdict(emulator.faults.add(**await read_any_json(request))), 201)


async def list_faults(emulator: Emulator, _: Request) -> Response:
    """Show the configured faults."""
    return JsonResponse({"faults": emulator.faults.listing()})


async def clear_faults(emulator: Emulator, request: Request) -> Response:
    """``{id?}``: remove one fault, or all."""
    emulator.faults.clear((await read_any_json(request)).get("id"))
    return JsonResponse({})


async def list_holds(emulator: Emulator, _: Request) -> Response:
    """Show the held requests."""
    return JsonResponse({"held": emulator.holds.listing()})


async def release_holds(emulator: Emulator, request: Request) -> Response:
    """``{id?, drop?}``: release one held request, or all; ``drop`` closes the connection instead."""
    body = await read_any_json(request)
    released = emulator.holds.release(body.get("id"), drop=bool(body.get("drop")))
    return JsonResponse({"released": released})


async def close_streams(emulator: Emulator, request: Request) -> Response:
    """``{inbox?}``: close the event streams of an inbox, or all."""
    reference = (await read_any_json(request)).get("inbox")
    emulator.streams.close(emulator.store.inboxes.find(reference).id if reference else None)
    return JsonResponse({})


async def list_streams(emulator: Emulator, _: Request) -> Response:
    """Count the open event streams, by inbox."""
    return JsonResponse({"open": Counter(stream.inbox_id for stream in emulator.streams.open)})


async def list_requests(emulator: Emulator, request: Request) -> Response:
    """Show the latest requests; ``?operation=`` filters them, ``?limit=`` limits them (default 100)."""
    query = request.query_params
    limit = validation.parameter_number(query, "limit", 100, 0, None)
    wanted = query.get("operation")
    found = [each for each in list(emulator.log.recent) if wanted in (None, each.operation)]
    shown = [each.view() for each in found[len(found) - min(limit, len(found)) :]]
    return JsonResponse({"counts": dict(emulator.log.counts), "requests": shown})


async def list_webhooks(emulator: Emulator, _: Request) -> Response:
    """Show the results of the latest notifications."""
    return JsonResponse({"sent": list(emulator.webhooks.sent)})


def _inbox(emulator: Emulator, body: dict[str, Any]) -> Inbox:
    return emulator.store.inboxes.find(validation.required_text(body, "inbox"))


OPERATIONS = tuple(
    Operation("control", method, PREFIX + path, "control", handler)
    for method, path, handler in (
        ("POST", "/messages", put_messages),
        ("POST", "/messages/attributes", set_attributes),
        ("POST", "/leases/expire", expire_leases),
        ("POST", "/inboxes", open_inbox),
        ("POST", "/inboxes/state", force_state),
        ("POST", "/inboxes/fail-initialization", fail_initialization),
        ("GET", "/inboxes/{inbox}", summarize),
        ("POST", "/tokens", issue_token),
        ("POST", "/tokens/expire", expire_tokens),
        ("GET", "/clock", show_clock),
        ("POST", "/clock/advance", advance_clock),
        ("POST", "/limits", set_limit),
        ("GET", "/settings", settings),
        ("POST", "/settings", settings),
        ("POST", "/reset", reset),
        ("POST", "/faults", add_fault),
        ("GET", "/faults", list_faults),
        ("POST", "/faults/clear", clear_faults),
        ("GET", "/holds", list_holds),
        ("POST", "/holds/release", release_holds),
        ("POST", "/streams/close", close_streams),
        ("GET", "/streams", list_streams),
        ("GET", "/requests", list_requests),
        ("GET", "/webhooks", list_webhooks),
    )
)
