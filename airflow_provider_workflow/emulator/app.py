"""The ASGI application: Starlette's routes around the operations, and what every request goes through."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.routing import Route, Router

from airflow_provider_workflow.emulator.errors import ServiceError, error_object
from airflow_provider_workflow.emulator.web import (
    control_routes,
    inbox_routes,
    oauth_routes,
    public_routes,
    wire_control_routes,
)
from airflow_provider_workflow.emulator.web.context import Emulator, Operation
from airflow_provider_workflow.emulator.web.misbehave import Misbehaviour
from airflow_provider_workflow.emulator.web.wire import (
    Answer,
    ClientGone,
    Connection,
    Receive,
    Request,
    Scope,
    Send,
)

logger = logging.getLogger(__name__)

OPERATIONS: tuple[Operation, ...] = (
    *inbox_routes.OPERATIONS,
    *oauth_routes.OPERATIONS,
    *public_routes.OPERATIONS,
    *control_routes.OPERATIONS,
    *wire_control_routes.OPERATIONS,
)
"""Every call that the emulator answers."""


def build_app(emulator: Emulator) -> Router:
    """Build the ASGI application. No middleware: errors become answers in :func:`perform`."""
    emulator.faults.operations = frozenset(each.name for each in OPERATIONS if each.family != "control")
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
    """Pass notices of the rules on to streams and webhooks, while the server runs."""
    emulator.streams.loop = emulator.webhooks.loop = asyncio.get_running_loop()
    listeners = (emulator.streams.tell, emulator.webhooks.tell)
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

    :param operations: what it answers, by method; none makes it the answer to every other path.
    """

    def __init__(self, emulator: Emulator, operations: dict[str, Operation]) -> None:
        self.emulator = emulator
        self.operations = operations

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        connection = Connection(scope, receive, send, self.emulator.store.clock.now)
        try:
            request = await connection.read()
        except ClientGone:
            return
        operation = self.operations.get(request.method)
        if operation is not None and operation.family == "control":
            await connection.send(perform(self.emulator, operation, request))
        else:
            await self._serve(operation, request, connection)

    async def _serve(self, operation: Operation | None, request: Request, connection: Connection) -> None:
        name = operation.name if operation else "unknown"
        entry = self.emulator.log.begin(name, request, self.emulator.store.clock.now())

        def act() -> Answer:
            return perform(self.emulator, operation, request) if operation else self._refusal()

        fault = None
        if self.emulator.faults.rules:
            fault = self.emulator.faults.take(name, request.method, request.path)
        if fault is not None:
            await Misbehaviour(self.emulator, fault, request, connection, entry, act).run()
            return
        answer = act()
        entry.status = answer.status
        await connection.send(answer)

    def _refusal(self) -> Answer:
        if not self.operations:
            return Answer.of_error(ServiceError(404, "not_found", "There is nothing at this address."))
        headers = {"Allow": ", ".join(sorted(self.operations))}
        detail = "This address does not take this method."
        return Answer.of_error(ServiceError(405, "method_not_allowed", detail, headers=headers))


def perform(emulator: Emulator, operation: Operation, request: Request) -> Answer:
    """Have the effect of a request, and return its answer with the rate headers."""
    headers: dict[str, str] = {}
    try:
        headers = emulator.store.limits.spend(operation.family)
        answer = operation.handler(emulator, request)
    except ServiceError as problem:
        answer = Answer.of_error(problem)
    except Exception as error:
        logger.exception("The emulator failed at %s %s", request.method, request.path)
        full_details = {"message": str(error), "code": type(error).__name__}
        meta = {"source": "emulator", "full_details": full_details}
        answer = Answer.of(
            500, {"errors": [error_object(500, "error", "A server error occurred.", meta=meta)]}
        )
    answer.headers.update(headers)
    return answer
