"""Makes requests fail; ``faults.py`` of the package describes each kind of fault."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from airflow_provider_workflow.emulator import faults
from airflow_provider_workflow.emulator.faults import Fault
from airflow_provider_workflow.emulator.rules.errors import error_object
from airflow_provider_workflow.emulator.web.context import JSON, Emulator, JsonResponse, Operation

BUSY = (429, 503)
"""Status codes that have ``Retry-After`` and the rate-limit headers (docs/service.md 15)."""

WITHOUT_BODY = (204, 304)
"""Status codes of responses without a body; a client would read a body as the next response."""


class DroppedConnection(Response):
    """No response: the connection is aborted, and unsent data is lost."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - ASGI
        scope["extensions"]["connection"]["transport"].abort()
        await disconnected(receive)


class TruncatedResponse(Response):
    """
    The first half of a body, with the Content-Length of all of it; then the connection is closed.

    :param whole: the response to truncate.
    """

    def __init__(self, whole: Response) -> None:
        super().__init__(body_of(whole), whole.status_code)
        self.raw_headers = whole.raw_headers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        half = self.body[: len(self.body) // 2]
        await send({"type": "http.response.body", "body": half, "more_body": True})
        scope["extensions"]["connection"]["transport"].close()
        await disconnected(receive)


class FaultInjection:
    """
    Makes one request fail.

    :param perform: performs the request, and returns the normal response.
    """

    def __init__(
        self,
        emulator: Emulator,
        operation: Operation,
        request: Request,
        fault: Fault,
        perform: Callable[[], Awaitable[Response]],
    ) -> None:
        self.emulator = emulator
        self.operation = operation
        self.request = request
        self.fault = fault
        self.perform = perform

    async def run(self) -> Response:
        """Apply the fault, and return the response."""
        return await KINDS[self.fault.kind](self)

    async def status(self) -> Response:
        await self._perform_if_after()
        return self._chosen_response()

    async def slow(self) -> Response:
        return await self._delayed(self._sleep)

    async def hold(self) -> Response:
        return await self._delayed(self._wait_for_release)

    async def drop(self) -> Response:
        await self._perform_if_after()
        return DroppedConnection()

    async def trickle(self) -> Response:
        await self._perform_if_after()
        return StreamingResponse(self._blanks(), self.fault.status or 200, media_type=JSON)

    async def truncate(self) -> Response:
        return TruncatedResponse(await self.perform())

    async def not_json(self) -> Response:
        await self._perform_if_after()
        text = "<html>not JSON</html>" if self.fault.text is None else self.fault.text
        return with_type(Response(text, self.fault.status or 200), self.fault.content_type or JSON)

    async def wrong_type(self) -> Response:
        return with_type(await self.perform(), self.fault.content_type or "text/plain")

    async def big(self) -> Response:
        response = await self.perform()
        value = json.loads(body_of(response) or b"{}")
        padding: Any = "x" * self.fault.size
        value = [*value, padding] if isinstance(value, list) else {**value, "padding": padding}
        del response.headers["content-length"]
        return with_type(JsonResponse(value, response.status_code, response.headers), JSON)

    async def redirect(self) -> Response:
        await self._perform_if_after()
        headers = {"Location": self.fault.location or other_host(self.request)}
        return Response(status_code=self.fault.status or 307, headers=headers)

    async def duplicate(self) -> Response:
        response = await self.perform()
        lease_id = json.loads(body_of(response)).get("lease_id") if response.status_code == 201 else None
        if lease_id is None:
            self.emulator.faults.uncount(self.fault)  # it applies to the next lease that has messages
        else:
            self.emulator.store.messages.deliver_again(self.request.path_params["inbox_id"], lease_id)
        return response

    async def _perform_if_after(self) -> None:
        if self.fault.when == "after":
            await self.perform()

    async def _delayed(self, pause: Callable[[], Awaitable[bool]]) -> Response:
        """Pause before or after performing the request; do not perform it if it is dropped before."""
        response = await self.perform() if self.fault.when == "after" else None
        if not await pause():
            return DroppedConnection()
        return response or await self.perform()

    async def _sleep(self) -> bool:
        await asyncio.sleep(self.fault.seconds)
        return True

    async def _wait_for_release(self) -> bool:
        path = self.request.scope["path"]
        return await self.emulator.holds.wait(self.fault.id, self.operation.name, path, self.fault.when)

    async def _blanks(self) -> AsyncIterator[bytes]:
        while True:
            yield b" "
            await asyncio.sleep(self.fault.seconds)

    def _chosen_response(self) -> Response:
        """Build the response that a ``status`` fault describes."""
        fault = self.fault
        status = fault.status or 500
        if status in WITHOUT_BODY:
            return Response(status_code=status, headers=fault.headers)
        headers = fault.headers
        if status in BUSY:
            named = {name.lower() for name in fault.headers}
            promised = {**self.emulator.store.limits.headers(self.operation.family), "Retry-After": "0"}
            headers = {**headers, **{name: promised[name] for name in promised if name.lower() not in named}}
        if fault.text is not None:
            return with_type(Response(fault.text, status, headers), fault.content_type or "text/html")
        body = fault.json
        if body is None:
            full_details = {"message": fault.detail, "code": fault.code}
            meta = {"source": "emulator", "full_details": full_details} if status == 500 else None
            body = {"errors": [error_object(status, fault.code, fault.detail, None, meta)]}
        return with_type(JsonResponse(body, status, headers), fault.content_type or JSON)


KINDS: dict[str, Callable[[FaultInjection], Awaitable[Response]]] = {
    name: getattr(FaultInjection, name) for name in faults.KINDS
}


def body_of(response: Response) -> bytes:
    """The body of a response; empty for a stream."""
    return bytes(getattr(response, "body", b""))


def with_type(response: Response, content_type: str) -> Response:
    """Set the Content-Type of a response; Starlette would add a charset to ``text/...``."""
    response.headers["content-type"] = content_type
    return response


def other_host(request: Request) -> str:
    """The URL of a request with another host name of this machine, without the query."""
    host = "localhost" if request.url.hostname == "127.0.0.1" else "127.0.0.1"
    return str(request.url.replace(hostname=host, query=""))


async def disconnected(receive: Receive) -> None:
    """Wait until the client has disconnected."""
    while (await receive())["type"] != "http.disconnect":
        pass
