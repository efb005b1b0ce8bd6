"""The ASGI application: routes to the operations, and the processing of each request."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from email.utils import formatdate
from functools import lru_cache, partial
from urllib.parse import urlsplit

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route, Router
from starlette.types import Receive, Scope, Send

from airflow_provider_workflow.emulator.checks import InvalidValueError
from airflow_provider_workflow.emulator.rules.errors import ServiceError, error_object, invalid_field
from airflow_provider_workflow.emulator.web import control_routes, routes
from airflow_provider_workflow.emulator.web.context import Emulator, JsonResponse, Operation, error_response
from airflow_provider_workflow.emulator.web.fault_injection import DroppedConnection, FaultInjection

logger = logging.getLogger(__name__)

OPERATIONS: tuple[Operation, ...] = (
    *routes.OPERATIONS,
    *control_routes.OPERATIONS,
)
"""All operations of the emulator."""


def build_app(emulator: Emulator) -> Router:
    """
    Build the ASGI application.

    Starlette's exception handlers are not used: faults that truncate or delay a response need it, so
    :func:`perform` converts errors to responses.
    """
    emulator.faults.operations = frozenset(
        ("unknown", *(operation.name for operation in OPERATIONS if operation.family != "control"))
    )
    by_path: dict[str, dict[str, Operation]] = {}
    for operation in OPERATIONS:
        by_path.setdefault(operation.path, {})[operation.method] = operation
    return Router(
        routes=[Route(path, Endpoint(emulator, operations)) for path, operations in by_path.items()],
        default=Endpoint(emulator, {}),
        redirect_slashes=False,
        lifespan=lambda _: attached(emulator),
    )


@asynccontextmanager
async def attached(emulator: Emulator) -> AsyncIterator[None]:
    """Pass notices of the rules to streams and webhooks while the server runs."""
    emulator.streams.loop = emulator.webhooks.loop = asyncio.get_running_loop()
    listeners = (emulator.streams.notify, emulator.webhooks.notify)
    emulator.store.core.listeners.extend(listeners)
    try:
        yield
    finally:
        for listener in listeners:
            emulator.store.core.listeners.remove(listener)
        emulator.streams.loop = emulator.webhooks.loop = None
        await emulator.webhooks.close()


class Endpoint:
    """
    One path, as an ASGI application.

    :param operations: the operations by method; empty for unknown paths.
    """

    def __init__(self, emulator: Emulator, operations: Mapping[str, Operation]) -> None:
        self.emulator = emulator
        self.operations = operations
        self.unknown = Operation("unknown", "", "", "unknown", partial(refuse, sorted(operations)))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        operation = self.operations.get(request.method, self.unknown)
        try:
            check_sender(request, operation, self.emulator.host)
            body = await request.body()
        except ServiceError as error:
            return await error_response(error)(scope, receive, send)
        except ClientDisconnect:
            return None
        if operation.family == "control":
            response = await perform(self.emulator, operation, request)
        else:
            response = await self._respond(operation, request, body)
        # By the service's clock, as clients compare other dates with it.
        response.headers.setdefault("date", http_date(int(self.emulator.store.clock.now())))
        return await response(scope, receive, send)

    async def _respond(self, operation: Operation, request: Request, body: bytes) -> Response:
        """Log a request, and perform it, with a fault if one applies."""
        emulator = self.emulator
        entry = emulator.log.begin(operation.name, request, body, emulator.store.clock.now())
        fault = None
        if emulator.faults.rules:
            fault = emulator.faults.take(operation.name, request.method, request.scope["path"])
        if fault is None:
            response = await perform(emulator, operation, request)
        else:
            without_fault = partial(perform, emulator, operation, request)
            response = await FaultInjection(emulator, operation, request, fault, without_fault).run()
        if not isinstance(response, DroppedConnection):
            entry.status = response.status_code
        return response


def check_sender(request: Request, operation: Operation, listening: str) -> None:
    """
    Reject what a page of another site makes the developer's browser send; programs and own pages pass.

    A link of another site may open a page: an application sends its user to the authorization page.

    :param listening: the host name or address that the server listens on.
    :raises ServiceError: 403.
    """
    headers = request.headers
    host, origin = headers.get("host", ""), headers.get("origin")
    if not is_own_host(host, listening):
        raise ServiceError(
            403,
            "forbidden",
            f"Host: this emulator answers to localhost and to its --host, not to {host!r}.",
        )
    is_link = (
        operation.family == "page"
        and request.method == "GET"
        and (headers.get("sec-fetch-mode"), headers.get("sec-fetch-dest")) == ("navigate", "document")
    )
    same_site = headers.get("sec-fetch-site", "none") in ("none", "same-origin") or is_link
    if not same_site or (origin is not None and origin.partition("://")[2] != host):
        raise ServiceError(403, "forbidden", "The emulator answers no requests of pages of other sites.")


@lru_cache(maxsize=16)
def is_own_host(host: str, listening: str) -> bool:
    """
    Whether a Host header names this machine's loopback or what the server listens on.

    A site whose name was made to lead here (DNS rebinding) has neither; it has no IP address either, so all
    of these are accepted by a server that listens on all addresses.
    """
    try:
        name = urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return False
    if name in ("localhost", listening.lower()):
        return True
    try:
        return ipaddress.ip_address(name).is_loopback or ipaddress.ip_address(listening).is_unspecified
    except ValueError:
        return False


async def perform(emulator: Emulator, operation: Operation, request: Request) -> Response:
    """Perform a request, and return its response with the rate-limit headers."""
    rate_headers: dict[str, str] = {}
    try:
        rate_headers = emulator.store.limits.spend(operation.family)
        response = await operation.handler(emulator, request)
    except ServiceError as error:
        response = error_response(error)
    except InvalidValueError as error:
        response = error_response(invalid_field(error.field, error.reason))
    except Exception as error:
        logger.exception("The emulator failed at %s %s", request.method, request.scope["path"])
        full_details = {"message": str(error), "code": type(error).__name__}
        meta = {"source": "emulator", "full_details": full_details}
        response = JsonResponse(
            {"errors": [error_object(500, "error", "A server error occurred.", meta=meta)]}, 500
        )
    # Faster than headers.update(), which would search for each of them first.
    raw = [(name.lower().encode(), value.encode()) for name, value in rate_headers.items()]
    response.raw_headers.extend(raw)
    return response


async def refuse(methods: list[str], _emulator: Emulator, _request: Request) -> Response:
    """
    Reject an unknown path, or a method that a path does not accept.

    :param methods: the accepted methods.
    :raises ServiceError: 404 or 405.
    """
    if not methods:
        raise ServiceError(404, "not_found", "There is no such path.")
    detail = "This path does not accept this method."
    raise ServiceError(405, "method_not_allowed", detail, headers={"Allow": ", ".join(methods)})


@lru_cache(maxsize=16)
def http_date(seconds: int) -> str:
    """Format seconds since 1970 as an HTTP date; cached, as many responses share a second."""
    return formatdate(seconds, usegmt=True)
