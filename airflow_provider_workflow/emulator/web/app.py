"""The ASGI application: routes to the operations, and the processing of each request."""

from __future__ import annotations

import ipaddress
import logging
from collections.abc import Mapping
from email.utils import formatdate
from functools import lru_cache, partial
from typing import Any
from urllib.parse import urlsplit

from pydantic import ValidationError
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route, Router
from starlette.types import Receive, Scope, Send

from airflow_provider_workflow.emulator.rules.errors import ServiceError, failure, invalid_value
from airflow_provider_workflow.emulator.web import control_routes, routes
from airflow_provider_workflow.emulator.web.context import (
    Call,
    Emulator,
    JsonResponse,
    LoggedRequest,
    Operation,
    error_response,
)
from airflow_provider_workflow.emulator.web.fault_injection import DroppedConnection, inject

logger = logging.getLogger(__name__)

OPERATIONS: tuple[Operation, ...] = (
    *routes.OPERATIONS,
    *control_routes.OPERATIONS,
    *control_routes.INDEX,
)
"""All operations of the emulator."""

WITH_FAULTS = frozenset(("unknown", *(operation.name for operation in routes.OPERATIONS)))
"""Names of the operations that faults can affect."""

NOT_STORED = {"Cache-Control": "no-store", "Pragma": "no-cache"}
"""Headers of the token endpoint (docs/service.md 9.1)."""

REQUIRED = (
    *("access_token", "api", "app", "id", "lease_id", "prefilled_url", "results", "status"),
    *("step", "steps"),
)
"""Fields that an answer must have, whatever it describes."""


def build_app(emulator: Emulator) -> Router:
    """
    Build the ASGI application.

    Starlette's exception handlers are not used: faults that truncate or delay a response need it, so
    :func:`_perform` converts errors to responses.
    """
    by_path: dict[str, dict[str, Operation]] = {}
    for operation in OPERATIONS:
        by_path.setdefault(operation.path, {})[operation.method] = operation
    return Router(
        routes=[Route(path, Endpoint(emulator, operations)) for path, operations in by_path.items()],
        default=Endpoint(emulator, {}),
        redirect_slashes=False,
        lifespan=lambda _: emulator.streams.attached(emulator.store),
    )


class Endpoint:
    """
    One path, as an ASGI application.

    :param operations: the operations by method; empty for unknown paths.
    """

    def __init__(self, emulator: Emulator, operations: Mapping[str, Operation]) -> None:
        self.emulator = emulator
        self.operations = operations
        self.unknown = Operation("unknown", "", "", "unknown", self._refuse)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        operation = self.operations.get(request.method, self.unknown)
        try:
            _check_sender(request, operation, self.emulator.host)
            call = Call(self.emulator, request, await request.body(), await routes.read_form(request))
        except ServiceError as error:
            return await error_response(error)(scope, receive, send)
        except ClientDisconnect:
            return None
        response = await self._respond(operation, call)
        # By the service's clock, as clients compare other dates with it.
        response.headers.setdefault("date", formatdate(self.emulator.store.clock.now(), usegmt=True))
        return await response(scope, receive, send)

    async def _respond(self, operation: Operation, call: Call) -> Response:
        """Log a call, and perform it, with a fault if one applies."""
        if operation.family == "control":
            return _perform(operation, call)
        emulator, request = self.emulator, call.request
        entry = LoggedRequest(
            operation.name,
            emulator.store.clock.now(),
            request.method,
            request.scope["path"],
            request.scope["query_string"].decode("latin-1"),
            dict(request.headers),
            call.content,
        )
        # Before the client has its response.
        emulator.log.append(entry)
        emulator.counts[operation.name] += 1
        fault = emulator.faults.take(operation.name, entry.path)
        if fault is None:
            response = _perform(operation, call)
        else:
            response = await inject(fault, operation, call, partial(_perform, operation, call))
        if not isinstance(response, DroppedConnection):
            entry.status = response.status_code
        return response

    def _refuse(self, _call: Call) -> None:
        """Reject an unknown path, or a method that a path does not accept."""
        if not self.operations:
            raise ServiceError(404, "not_found", "There is no such path.")
        allowed = ", ".join(sorted(self.operations))
        detail = "This path does not accept this method."
        raise ServiceError(405, "method_not_allowed", detail, headers={"Allow": allowed})


def _perform(operation: Operation, call: Call) -> Response:
    """Perform a call, and return its response with the rate-limit headers."""
    headers = NOT_STORED if operation.family == "token" else {}
    try:
        headers = {**headers, **call.store.spend(operation.family)}
        if operation.admission:
            authorization = call.request.headers.get("authorization")
            call.token = call.store.tokens.admit(authorization, operation.admission)
        response = _response_of(operation.handler(call), call)
    except ServiceError as error:
        response = error_response(error)
    except ValidationError as error:
        response = error_response(invalid_value(error))
    except Exception as error:
        logger.exception("The emulator failed at %s %s", call.request.method, call.request.scope["path"])
        response = JsonResponse(failure(type(error).__name__, str(error)), 500)
    # Not over those of an error that has them already.
    for name, value in headers.items():
        response.headers.setdefault(name, value)
    return response


def _response_of(result: Any, call: Call) -> Response:
    """The response of what a handler returned."""
    if isinstance(result, Response):
        return result
    content, status = result if isinstance(result, tuple) else (result, 200)
    if call.store.settings.required_fields_only:
        content = _required_fields(content)
    return JsonResponse(content, status)


def _required_fields(value: Any) -> Any:
    """An answer without the fields that the service may leave out (docs/service.md)."""
    if isinstance(value, list):
        return [_required_fields(item) for item in value]
    if isinstance(value, dict):
        # A guess must have a title, and no step of it.
        names = (*REQUIRED, "title") if "prefilled_url" in value else REQUIRED
        return {name: _required_fields(item) for name, item in value.items() if name in names}
    return value


def _check_sender(request: Request, operation: Operation, listening: str) -> None:
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
