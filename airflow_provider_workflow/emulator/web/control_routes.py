"""
The control routes (``/_emulator/...``).

They do on demand what the real service does by itself, configure faults, and show the requests. Each is a
function of the emulator and of named values from the path, the query and the body, which pydantic checks by
the annotations.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from functools import wraps
from inspect import getdoc
from typing import Annotated, Any

from pydantic import Field, InstanceOf, validate_call, with_config
from starlette.responses import PlainTextResponse, Response
from typing_extensions import TypedDict

from airflow_provider_workflow.emulator.rules.errors import invalid_value
from airflow_provider_workflow.emulator.settings import STRICT, InboxState, Name
from airflow_provider_workflow.emulator.web.context import JSON, Call, Emulator, JsonResponse, Operation

PREFIX = "/_emulator"
OPERATIONS: list[Operation] = []

Service = InstanceOf[Emulator]


@with_config(STRICT)
class Attributes(TypedDict, total=False):
    """Attributes of a message that can be chosen."""

    error_message: str | None
    possible_duplicate_data: bool
    lease_count: Annotated[int, Field(ge=0)]


def control(method: str, path: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declare a control route, which answers with what the function returns."""

    def declare(function: Callable[..., Any]) -> Callable[..., Any]:
        checked = validate_call(config=STRICT)(function)

        @wraps(function)
        def handle(call: Call) -> Response:
            query = {name: int(text) if text.isdecimal() else text for name, text in call.query.items()}
            values = {**call.request.path_params, **query, **call.json()}
            try:
                answer = checked(call.emulator, **values)
            except ValueError as error:
                raise invalid_value(error) from None
            # With a line break, for a terminal.
            return Response(bytes(JsonResponse(answer).body) + b"\n", media_type=JSON)

        OPERATIONS.append(Operation("control", method, PREFIX + path, "control", handle))
        return function

    return declare


@control("POST", "/messages")
def put_messages(
    emulator: Service,
    inbox: Name,
    payloads: list[Any],
    ids: list[Any] | None = None,
    attributes: Attributes | None = None,
    create: bool = False,
) -> Any:
    """
    Put messages into an inbox.

    ``ids`` chooses their ids: strings, numbers, or null for a message without an id.
    """
    store = emulator.store
    with store:
        stored = store.inboxes.open(inbox) if create else store.inboxes.find(inbox)
        message_ids = store.messages.put(stored.id, payloads, ids=ids, attributes=dict(attributes or {}))
    dropped = len(payloads) - len(message_ids)
    note = f"Dropped: the inbox is {stored.status}, and only an active inbox accepts messages."
    return {"ids": message_ids, "dropped": dropped, "note": note if dropped else None}


@control("POST", "/leases/expire")
def expire_leases(emulator: Service, inbox: Name | None = None, lease_id: Name | None = None) -> Any:
    """End one lease, those of an inbox, or all."""
    inbox_id = None if inbox is None else emulator.store.inboxes.find(inbox).id
    return {"expired": emulator.store.messages.expire(inbox_id, lease_id)}


@control("POST", "/inboxes/state")
def force_state(emulator: Service, inbox: Name, status: InboxState, paused_reason: str | None = None) -> Any:
    """Set the state of an inbox."""
    inboxes = emulator.store.inboxes
    return inboxes.force(inboxes.find(inbox).id, status, paused_reason).view()


@control("GET", "/inboxes/{inbox}")
def summarize(emulator: Service, inbox: Name, messages: Annotated[int, Field(ge=0, le=1)] = 1) -> Any:
    """Describe an inbox with its messages and leases; with ``messages=0`` without them."""
    inbox_id = emulator.store.inboxes.find(inbox).id
    return emulator.store.messages.summary(inbox_id, with_messages=bool(messages))


@control("POST", "/tokens/expire")
def expire_tokens(emulator: Service, token: Name | None = None) -> Any:
    """Expire one access token, or all."""
    return {"expired": emulator.store.tokens.expire(token)}


@control("POST", "/clock/advance")
def advance_clock(emulator: Service, seconds: float) -> Any:
    """Move the clock, within the years 1970 to 9998."""
    emulator.store.clock.advance(seconds)
    return {"now": emulator.store.clock.now()}


@control("POST", "/settings")
def change_settings(emulator: Service, **changes: Any) -> Any:
    """Change settings, until the next reset, and show all."""
    return vars(emulator.store.configure(**changes))


@control("POST", "/reset")
def reset(emulator: Service) -> Any:
    """Reset everything."""
    emulator.reset()
    return {}


@control("POST", "/faults")
def add_fault(emulator: Service, **fields: Any) -> Any:
    """Make requests fail."""
    return vars(emulator.faults.add(**fields))


@control("POST", "/faults/clear")
def clear_faults(emulator: Service) -> Any:
    """Remove all faults."""
    emulator.faults.clear()
    return {}


@control("GET", "/requests")
def list_requests(emulator: Service, limit: Annotated[int, Field(ge=0)] = 100) -> Any:
    """Show the latest requests, 100 by default, and count all, and the open event streams."""
    requests = list(emulator.log)
    shown = [
        {**asdict(request), "body": request.body.decode("utf-8", "replace")}
        for request in requests[len(requests) - min(limit, len(requests)) :]
    ]
    streams = len(emulator.streams.open)
    return {"counts": dict(emulator.counts), "requests": shown, "streams": streams}


def _index(_: Call) -> Response:
    """Say what this is, and what each control route does."""
    routes = [
        f"{route.method} {route.path}: {(getdoc(route.handler) or '').splitlines()[0]}"
        for route in OPERATIONS
    ]
    return PlainTextResponse(
        "\n".join(["The emulator of the workflow service. Its control routes:", *routes, ""])
    )


INDEX = [Operation("control", "GET", path, "control", _index) for path in ("/", PREFIX)]
