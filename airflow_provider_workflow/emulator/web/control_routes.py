"""
The control routes (``/_emulator/...``).

They do on demand what the real service does by itself, configure faults, and show the requests. Each is a
function of the emulator and of named values from the path, the query and the body, which pydantic checks by
the annotations.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import asdict
from typing import Annotated, Any

from pydantic import Field, InstanceOf, validate_call, with_config
from typing_extensions import TypedDict

from airflow_provider_workflow.emulator.rules.errors import invalid_value
from airflow_provider_workflow.emulator.rules.rate_limits import WINDOW_SECONDS
from airflow_provider_workflow.emulator.settings import STRICT, Family, InboxState, Name
from airflow_provider_workflow.emulator.web.context import Call, Emulator, JsonResponse, Operation

PREFIX = "/_emulator"
OPERATIONS: list[Operation] = []


@with_config(STRICT)
class Attributes(TypedDict, total=False):
    """Attributes of a message that can be chosen."""

    error_message: str | None
    possible_duplicate_data: bool
    lease_count: Annotated[int, Field(ge=0)]


class LineResponse(JsonResponse):
    """JSON that ends with a line break, for a terminal."""

    def render(self, content: Any) -> bytes:
        return super().render(content) + b"\n"


def control(method: str, path: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declare a control route, which answers with what the function returns."""

    def declare(function: Callable[..., Any]) -> Callable[..., Any]:
        checked = validate_call(config=STRICT)(function)

        def handle(call: Call) -> LineResponse:
            query = {name: int(text) if text.isdecimal() else text for name, text in call.query.items()}
            try:
                answer = checked(call.emulator, **call.request.path_params, **query, **call.json())
            except ValueError as error:
                raise invalid_value(error) from None
            return LineResponse(answer)

        OPERATIONS.append(Operation("control", method, PREFIX + path, "control", handle))
        return function

    return declare


@control("POST", "/messages")
def put_messages(
    emulator: InstanceOf[Emulator],
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
    with store.core:
        found = store.inboxes.open(inbox) if create else store.inboxes.find(inbox)
        chosen = store.messages.put(found.id, payloads, ids=ids, attributes=dict(attributes or {}))
    dropped = len(payloads) - len(chosen)
    note = f"Dropped: the inbox is {found.status}, and only an active inbox accepts messages."
    return {"ids": chosen, "dropped": dropped, "note": note if dropped else None}


@control("POST", "/leases/expire")
def expire_leases(
    emulator: InstanceOf[Emulator], inbox: Name | None = None, lease_id: Name | None = None
) -> Any:
    """End one lease, those of an inbox, or all."""
    inbox_id = None if inbox is None else emulator.store.inboxes.find(inbox).id
    return {"expired": emulator.store.leases.expire(inbox_id, lease_id)}


@control("POST", "/inboxes/state")
def force_state(
    emulator: InstanceOf[Emulator], inbox: Name, status: InboxState, paused_reason: str | None = None
) -> Any:
    """Set the state of an inbox."""
    inboxes = emulator.store.inboxes
    return inboxes.force(inboxes.find(inbox).id, status, paused_reason).view()


@control("GET", "/inboxes/{inbox}")
def summarize(
    emulator: InstanceOf[Emulator], inbox: Name, messages: Annotated[int, Field(ge=0, le=1)] = 1
) -> Any:
    """Describe an inbox with its messages and leases; with ``messages=0`` without them."""
    inbox_id = emulator.store.inboxes.find(inbox).id
    return emulator.store.messages.summary(inbox_id, with_messages=bool(messages))


@control("POST", "/tokens/expire")
def expire_tokens(emulator: InstanceOf[Emulator], token: Name | None = None) -> Any:
    """Expire one access token, or all."""
    return {"expired": emulator.store.tokens.expire(token)}


@control("POST", "/clock/advance")
def advance_clock(emulator: InstanceOf[Emulator], seconds: float) -> Any:
    """Move the clock, within the years 1970 to 9998."""
    emulator.store.clock.advance(seconds)
    return {"now": emulator.store.clock.now()}


@control("POST", "/limits")
def set_limit(
    emulator: InstanceOf[Emulator],
    family: Family,
    limit: Annotated[int, Field(ge=0)] | None,
    window_seconds: Annotated[float, Field(gt=0)] = WINDOW_SECONDS,
) -> Any:
    """Limit a family of calls; the limit null restores the one of the settings."""
    emulator.store.limits.set(family, limit, window_seconds)
    return {}


@control("POST", "/settings")
def change_settings(emulator: InstanceOf[Emulator], **changes: Any) -> Any:
    """Change settings, until the next reset, and show all."""
    return vars(emulator.store.configure(**changes))


@control("POST", "/reset")
def reset(emulator: InstanceOf[Emulator]) -> Any:
    """Reset everything."""
    emulator.reset()
    return {}


@control("POST", "/faults")
def add_fault(emulator: InstanceOf[Emulator], **fields: Any) -> Any:
    """Make requests fail."""
    return vars(emulator.faults.add(**fields))


@control("POST", "/faults/clear")
def clear_faults(emulator: InstanceOf[Emulator]) -> Any:
    """Remove all faults."""
    return {"cleared": emulator.faults.clear()}


@control("GET", "/streams")
def list_streams(emulator: InstanceOf[Emulator]) -> Any:
    """Count the open event streams, by inbox."""
    return {"open": Counter(stream.inbox_id for stream in emulator.streams.open)}


@control("GET", "/requests")
def list_requests(emulator: InstanceOf[Emulator], limit: Annotated[int, Field(ge=0)] = 100) -> Any:
    """Show the latest requests, 100 by default, and count all."""
    requests = list(emulator.log)
    shown = [
        {**asdict(request), "body": request.body.decode("utf-8", "replace")}
        for request in requests[len(requests) - min(limit, len(requests)) :]
    ]
    return {"counts": dict(emulator.counts), "requests": shown}
