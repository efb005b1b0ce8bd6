"""Makes requests fail; ``faults.py`` of the package describes each kind of fault."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from airflow_provider_workflow.emulator.faults import Fault
from airflow_provider_workflow.emulator.rules.errors import envelope, failure
from airflow_provider_workflow.emulator.web.context import JSON, Call, JsonResponse, Operation

BUSY = (429, 503)
"""Status codes that have ``Retry-After`` and the rate-limit headers (docs/service.md 15)."""

WITHOUT_BODY = (204, 304)
"""Status codes of responses without a body; a client would read a body as the next response."""


class DroppedConnection(Response):
    """No response: the connection is aborted, and unsent data is lost."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - ASGI
        scope["extensions"]["connection"]["transport"].abort()
        await _disconnected(receive)


class TruncatedResponse(Response):
    """
    The first half of a body, with the Content-Length of all of it; then the connection is closed.

    :param whole: the response to truncate.
    """

    def __init__(self, whole: Response) -> None:
        super().__init__(_body_of(whole), whole.status_code)
        self.raw_headers = whole.raw_headers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        half = self.body[: len(self.body) // 2]
        await send({"type": "http.response.body", "body": half, "more_body": True})
        scope["extensions"]["connection"]["transport"].close()
        await _disconnected(receive)


async def inject(fault: Fault, operation: Operation, call: Call, perform: Callable[[], Response]) -> Response:
    """
    Make a request fail, and return the response.

    :param perform: performs the request, and returns the normal response.
    """
    response = perform() if fault.when == "after" else None
    if fault.kind == "drop":
        return DroppedConnection()
    if fault.kind == "status":
        return _chosen_response(fault, operation, call)
    if fault.kind == "slow":
        await asyncio.sleep(fault.seconds)
    path = call.request.scope["path"]
    if fault.kind == "hold" and not await call.emulator.holds.wait(operation.name, path, fault.when):
        return DroppedConnection()
    response = response or perform()
    if fault.kind == "duplicate" and response.status_code == 201:
        call.store.messages.deliver_again(call.inbox_id, json.loads(_body_of(response))["lease_id"])
    return TruncatedResponse(response) if fault.kind == "truncate" else response


def _chosen_response(fault: Fault, operation: Operation, call: Call) -> Response:
    """Build the response that a ``status`` fault describes."""
    status, headers = fault.status, dict(fault.headers)
    if status in WITHOUT_BODY:
        return Response(status_code=status, headers=headers)
    if status in BUSY:
        named = {name.lower() for name in headers}
        promised = {**call.store.spend(operation.family, 0), "Retry-After": "0"}
        headers |= {name: promised[name] for name in promised if name.lower() not in named}
    if fault.text is not None:
        response, content_type = Response(fault.text, status, headers), "text/html"
    else:
        body = fault.json
        if body is None and status == 500:
            body = failure(fault.code, fault.detail)
        elif body is None:
            body = envelope(status, fault.code, fault.detail)
        response, content_type = JsonResponse(body, status, headers), JSON
    # Starlette would add a charset to "text/...".
    response.headers["content-type"] = fault.content_type or content_type
    return response


def _body_of(response: Response) -> bytes:
    """The body of a response; empty for a stream."""
    return bytes(getattr(response, "body", b""))


async def _disconnected(receive: Receive) -> None:
    """Wait until the client has disconnected."""
    while (await receive())["type"] != "http.disconnect":
        pass
