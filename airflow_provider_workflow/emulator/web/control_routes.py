"""
The control routes (``/_emulator/...``).

They do on demand what the real service does by itself, configure faults, and show the requests. Each is a
function of the emulator and of named values from the path, the query and the body, which are checked first.
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from airflow_provider_workflow.emulator import checks
from airflow_provider_workflow.emulator.checks import Check, checks_of, verify
from airflow_provider_workflow.emulator.faults import Fault
from airflow_provider_workflow.emulator.rules import errors
from airflow_provider_workflow.emulator.rules.oauth import GRANTS
from airflow_provider_workflow.emulator.rules.records import Inbox, iso
from airflow_provider_workflow.emulator.settings import FAMILIES, INBOX_STATES, KNOWN_SCOPES, Settings
from airflow_provider_workflow.emulator.web.context import Emulator, JsonResponse, Operation, read_any_json

PREFIX = "/_emulator"
ATTRIBUTES = {
    "error_message": checks.nullable(checks.string),
    "possible_duplicate_data": checks.flag,
    "lease_count": checks.whole(0),
}
OPERATIONS: list[Operation] = []
ROUTES: list[dict[str, Any]] = []
"""The control routes as JSON."""

Control = Callable[..., Any]


class LineResponse(JsonResponse):
    """JSON that ends with a line break, for a terminal."""

    def render(self, content: Any) -> bytes:
        return super().render(content) + b"\n"


def control(
    method: str, path: str, valid: Mapping[str, Check] | None = None, status: int = 200
) -> Callable[[Control], Control]:
    """
    Declare a control route.

    :param valid: the check of each value. The ones without a default are required, and null stands for a
        default of None.
    :param status: status code of the response, whose body is what the function returns.
    """
    values_of_path = [part[1:-1] for part in path.split("/") if part.startswith("{")]
    all_checks = {**(valid or {}), **dict.fromkeys(values_of_path, checks.name)}

    def declare(function: Control) -> Control:
        parameters = inspect.signature(function).parameters
        required = [name for name in all_checks if name in parameters and _is_required(parameters[name])]
        described = {
            "method": method,
            "path": PREFIX + path,
            "required": [name for name in required if name not in values_of_path],
            "optional": [name for name in all_checks if name not in required],
            "does": inspect.cleandoc(function.__doc__ or "").partition("\n\n")[0].replace("\n", " "),
        }

        async def handle(emulator: Emulator, request: Request) -> Response:
            values = {**request.path_params, **_query(request), **await read_any_json(request)}
            values = {
                name: value for name, value in values.items() if not _is_default(parameters, name, value)
            }
            verify(values, all_checks, required)
            return LineResponse(function(emulator, **values), status)

        OPERATIONS.append(Operation("control", method, PREFIX + path, "control", handle))
        ROUTES.append(described)
        return function

    return declare


def _is_required(parameter: inspect.Parameter) -> bool:
    return parameter.default is parameter.empty


def _is_default(parameters: Mapping[str, inspect.Parameter], name: str, value: Any) -> bool:
    return value is None and name in parameters and parameters[name].default is None


def _query(request: Request) -> dict[str, Any]:
    return {name: int(text) if text.isdecimal() else text for name, text in request.query_params.items()}


def _inbox(emulator: Emulator, id_or_name: str) -> Inbox:
    return emulator.store.inboxes.find(id_or_name)


@control("GET", "")
def list_routes(_: Emulator) -> Any:
    """List the control routes."""
    return {"routes": ROUTES}


@control(
    "POST",
    "/messages",
    {
        "inbox": checks.name,
        "payloads": checks.list_of(checks.anything),
        "ids": checks.list_of(checks.scalar),
        "attributes": checks.object_of(ATTRIBUTES),
        "create": checks.flag,
        "announce": checks.flag,
    },
)
def put_messages(
    emulator: Emulator,
    inbox: str,
    payloads: list[Any],
    ids: list[Any] | None = None,
    attributes: dict[str, Any] | None = None,
    *,
    create: bool = False,
    announce: bool = True,
) -> Any:
    """
    Put messages into an inbox.

    ``ids`` chooses their ids: strings, numbers, or null for a message without an id.
    """
    with emulator.store.core:
        if create:
            emulator.store.inboxes.open(inbox)
        inbox_id = _inbox(emulator, inbox).id
        put = emulator.store.messages.put(
            inbox_id, payloads, ids=ids, attributes=attributes, announce=announce
        )
    dropped = f"Dropped: the inbox is {put.status}, and only an active inbox accepts messages."
    return {"ids": put.ids, "dropped": put.dropped, "note": dropped if put.dropped else None}


@control(
    "POST",
    "/messages/attributes",
    {"inbox": checks.name, "message_id": checks.scalar, "attributes": checks.object_of(ATTRIBUTES)},
)
def set_attributes(emulator: Emulator, inbox: str, message_id: Any, attributes: dict[str, Any]) -> Any:
    """Set attributes of a message."""
    emulator.store.messages.set_attributes(_inbox(emulator, inbox).id, message_id, attributes)
    return {}


@control("POST", "/leases/expire", {"inbox": checks.name, "lease_id": checks.name})
def expire_leases(emulator: Emulator, inbox: str | None = None, lease_id: str | None = None) -> Any:
    """End one lease, those of an inbox, or all."""
    inbox_id = None if inbox is None else _inbox(emulator, inbox).id
    return {"expired": emulator.store.leases.expire(inbox_id, lease_id)}


@control("POST", "/inboxes", {"name": checks.name, "subscription": checks.anything})
def open_inbox(emulator: Emulator, name: str, **options: Any) -> Any:
    """Create an active inbox unless it exists."""
    errors.inbox_name({"name": name}, required=True)
    subscription = errors.subscription(options) if options else None
    return emulator.store.inboxes.open(name, subscription).view()


@control(
    "POST",
    "/inboxes/state",
    {"inbox": checks.name, "status": checks.one_of(*INBOX_STATES), "paused_reason": checks.string},
)
def force_state(emulator: Emulator, inbox: str, status: str, paused_reason: str | None = None) -> Any:
    """Set the state of an inbox."""
    return emulator.store.inboxes.force(_inbox(emulator, inbox).id, status, paused_reason).view()


@control("POST", "/inboxes/fail-initialization", {"name": checks.name, "times": checks.whole(1)})
def fail_initialization(emulator: Emulator, name: str | None = None, times: int = 1) -> Any:
    """Make the next initializations fail, of any inbox or of that name."""
    emulator.store.inboxes.fail_next(name, times)
    return {}


@control("GET", "/inboxes/{inbox}", {"messages": checks.whole(0, 1)})
def summarize(emulator: Emulator, inbox: str, messages: int = 1) -> Any:
    """Describe an inbox with its messages and leases; with ``messages=0`` without them."""
    return emulator.store.messages.summary(_inbox(emulator, inbox).id, with_messages=bool(messages))


@control("POST", "/tokens", {"scope": checks.words_of(*KNOWN_SCOPES), "grant": checks.one_of(*GRANTS)})
def issue_token(emulator: Emulator, **options: str) -> Any:
    """Issue an access token without the token endpoint."""
    token = emulator.store.tokens.issue(**options)
    return {"access_token": token.value, "expires_at": token.expires_at}


@control("POST", "/tokens/expire", {"token": checks.name})
def expire_tokens(emulator: Emulator, token: str | None = None) -> Any:
    """Expire one access token, or all."""
    return {"expired": emulator.store.tokens.expire(token)}


@control("GET", "/clock")
def show_clock(emulator: Emulator) -> Any:
    """Show the time."""
    now = emulator.store.clock.now()
    return {"now": now, "iso": iso(now)}


@control("POST", "/clock/advance", {"seconds": checks.number(-1e12)})
def advance_clock(emulator: Emulator, seconds: float) -> Any:
    """Move the clock, within the years 1970 to 9998."""
    emulator.store.clock.advance(seconds)
    return show_clock(emulator)


@control(
    "POST",
    "/limits",
    {
        "family": checks.one_of(*FAMILIES),
        "limit": checks.nullable(checks.whole(0)),
        "window_seconds": checks.number(0.001),
    },
)
def set_limit(emulator: Emulator, family: str, limit: int | None, **options: float) -> Any:
    """Limit a family of calls; the limit null restores the one of the settings."""
    emulator.store.limits.set(family, limit, **options)
    return {}


@control("GET", "/settings")
def show_settings(emulator: Emulator) -> Any:
    """Show the settings."""
    return asdict(emulator.store.settings)


@control("POST", "/settings", checks_of(Settings))
def change_settings(emulator: Emulator, **changes: Any) -> Any:
    """Change settings, until the next reset."""
    return asdict(emulator.store.configure(**changes))


@control("POST", "/reset")
def reset(emulator: Emulator) -> Any:
    """Reset everything."""
    emulator.reset()
    return {}


@control("POST", "/faults", checks_of(Fault), status=201)
def add_fault(emulator: Emulator, kind: str, **fields: Any) -> Any:
    """Make requests fail."""
    return asdict(emulator.faults.add(kind=kind, **fields))


@control("GET", "/faults")
def list_faults(emulator: Emulator) -> Any:
    """Show the configured faults."""
    return {"faults": emulator.faults.listing()}


@control("POST", "/faults/clear", {"id": checks.whole(1)})
def clear_faults(emulator: Emulator, id: int | None = None) -> Any:
    """Remove one fault, or all."""
    return {"cleared": emulator.faults.clear(id)}


@control("GET", "/holds")
def list_holds(emulator: Emulator) -> Any:
    """Show the held requests."""
    return {"held": emulator.holds.listing()}


@control("POST", "/holds/release", {"id": checks.whole(1), "drop": checks.flag})
def release_holds(emulator: Emulator, id: int | None = None, *, drop: bool = False) -> Any:
    """Release one held request, or all; ``drop`` closes the connection instead."""
    return {"released": emulator.holds.release(id, drop=drop)}


@control("POST", "/streams/close", {"inbox": checks.name})
def close_streams(emulator: Emulator, inbox: str | None = None) -> Any:
    """Close the event streams of an inbox, or all."""
    emulator.streams.close(None if inbox is None else _inbox(emulator, inbox).id)
    return {}


@control("GET", "/streams")
def list_streams(emulator: Emulator) -> Any:
    """Count the open event streams, by inbox."""
    return {"open": Counter(stream.inbox_id for stream in emulator.streams.open)}


@control("GET", "/requests", {"operation": checks.name, "limit": checks.whole(0)})
def list_requests(emulator: Emulator, operation: str | None = None, limit: int = 100) -> Any:
    """Show the latest requests, 100 by default, and count all."""
    if operation is not None:
        emulator.faults.check_operation(operation)
    requests = [request for request in list(emulator.log.recent) if operation in (None, request.operation)]
    shown = [request.view() for request in requests[len(requests) - min(limit, len(requests)) :]]
    return {"counts": dict(emulator.log.counts), "requests": shown}


@control("GET", "/webhooks")
def list_webhooks(emulator: Emulator) -> Any:
    """Show the results of the latest notifications."""
    return {"sent": list(emulator.webhooks.sent)}
