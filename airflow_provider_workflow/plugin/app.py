"""
The application that Airflow's API server mounts below ``/workflow``.

Its routes are plain functions, so that FastAPI runs them in threads: they read the database and call the
service, and must never block the event loop, which also serves the requests of running tasks.
"""

from __future__ import annotations

import json
import logging
import re
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Body, Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from fastapi.staticfiles import StaticFiles

from airflow_provider_workflow import __version__
from airflow_provider_workflow.client import api
from airflow_provider_workflow.client.wire import plain
from airflow_provider_workflow.hooks.connection import CONN_TYPE
from airflow_provider_workflow.plugin import (
    access,
    airflow_server,
    errors,
    inboxes,
    messages,
    replaying,
    service,
    views,
)
from airflow_provider_workflow.plugin.access import Reader
from airflow_provider_workflow.plugin.errors import PageError
from airflow_provider_workflow.plugin.listeners import Listeners

log = logging.getLogger(__name__)

STATIC = Path(__file__).parent / "static"
DEFAULT_CONN_ID = "workflow_default"
PAGE_HEADER = "X-Workflow-Page"
SAME_SITE = (None, "same-origin", "none")
"""Values of ``Sec-Fetch-Site`` with which a change is accepted; programs send none."""
LONGEST_FIELD = 2_000
"""Characters of a value in an address or a body."""
UNUSABLE = re.compile("[\0\ud800-\udfff]")

User = Annotated[Any, Depends(airflow_server.get_user())]
INBOXES = "/connections/{connection_id}/inboxes"
INBOX = INBOXES + "/{inbox_id}"

HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}


def answer(body: dict[str, Any], status: int = 200, **headers: str) -> Response:
    """
    An answer of the API.

    The thread of the route encodes it; FastAPI would encode a dictionary in the event loop.

    :raises ValueError: a number is not finite, which JSON cannot express.
    """
    text = json.dumps(body, allow_nan=False)
    return Response(text, status, {**HEADERS, **headers}, media_type="application/json")


of_user = APIRouter(tags=["Workflow"])
of_connection = APIRouter(dependencies=[Depends(airflow_server.requires_connection("GET"))])


@of_user.get("/connections")
def list_connections(user: User) -> Response:
    """The connections of type ``workflow`` that the user may read."""
    return answer(access.connections(Reader(user), CONN_TYPE, DEFAULT_CONN_ID))


@of_user.get(
    "/dags/{dag_id}/runs/{run_id}/message", dependencies=[Depends(airflow_server.requires_dag_run())]
)
def message_of_run(dag_id: str, run_id: str, user: User) -> Response:
    """The message that a DAG run was started for."""
    return answer(messages.of_run(dag_id, run_id, Reader(user)))


@of_connection.get(INBOXES)
def list_inboxes(
    connection_id: str, user: User, name: str | None = None, cursor: str | None = None
) -> Response:
    """The inboxes of a connection, up to 500."""
    return answer(inboxes.listing(connection_id, name, cursor, Reader(user)))


@of_connection.get(INBOX)
def show_inbox(connection_id: str, inbox_id: str, user: User) -> Response:
    """A list of one inbox."""
    return answer(inboxes.one(connection_id, inbox_id, Reader(user)))


@of_connection.get(INBOX + "/summary")
def summary(connection_id: str, inbox_id: str) -> Response:
    """The numbers of an inbox."""
    return answer(inboxes.summary(connection_id, inbox_id))


@of_connection.get(INBOX + "/messages")
def list_messages(connection_id: str, inbox_id: str, user: User, cursor: str | None = None) -> Response:
    """The messages of an inbox, up to 500, without payloads."""
    return answer(messages.listing(connection_id, inbox_id, cursor, Reader(user)))


@of_connection.get(INBOX + "/dead-letters")
def list_dead_letters(connection_id: str, inbox_id: str, user: User) -> Response:
    """The newest dead letters of an inbox."""
    return answer(messages.dead_letters(connection_id, inbox_id, Reader(user)))


@of_connection.get(INBOX + "/dead-letters/{dag_id}/{run_id}/message")
def show_dead_letter(connection_id: str, inbox_id: str, dag_id: str, run_id: str, user: User) -> Response:
    """The message of a dead letter, payload included."""
    return answer(replaying.message(connection_id, inbox_id, (dag_id, run_id), Reader(user)))


async def requires_page(request: Request) -> None:
    """
    Accept only requests of our page, or of a program.

    The user's cookie is sent with requests of other sites too, and Airflow has no token against that. Other
    sites can send neither a header of their own nor JSON without the consent of the API server.

    :raises PageError: another site may have made the request.
    """
    if request.headers.get("Sec-Fetch-Site") not in SAME_SITE:
        raise errors.forbidden("Another web site made this request", "use the page in Airflow")
    kind = request.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise errors.invalid("The body must be JSON", "send Content-Type: application/json", 415)
    if request.headers.get(PAGE_HEADER) != "1":
        raise errors.invalid("A header is missing", f"send {PAGE_HEADER}: 1")


changing = APIRouter(
    dependencies=[Depends(airflow_server.requires_connection("PUT")), Depends(requires_page)]
)
Fields = Annotated[dict[str, Any], Body()]


@changing.post(INBOX + "/pause")
def pause(connection_id: str, inbox_id: str, user: User, fields: Fields) -> Response:  # noqa: ARG001
    """Pause an inbox: the service drops new events meanwhile."""
    return _changed(
        "paused", connection_id, service.call(connection_id, lambda: api.pause_inbox(inbox_id)), user
    )


@changing.post(INBOX + "/resume")
def resume(connection_id: str, inbox_id: str, user: User, fields: Fields) -> Response:  # noqa: ARG001
    """Resume a paused inbox."""
    return _changed(
        "resumed", connection_id, service.call(connection_id, lambda: api.resume_inbox(inbox_id)), user
    )


def _changed(what: str, connection_id: str, inbox: Any, user: Any) -> Response:
    name = airflow_server.name_of(user)
    log.info("Inbox %s of the connection %s: %s by %s", plain(inbox["id"]), connection_id, what, plain(name))
    return answer(inboxes.shown(views.inbox_of(inbox), Listeners(connection_id, Reader(user))))


@changing.post(INBOX + "/dead-letters/replay")
def replay(connection_id: str, inbox_id: str, user: User, fields: Fields) -> Response:
    """Start the run that the message of a dead letter was meant to start."""
    dag_id, run_id = _text(fields, "dag_id"), _text(fields, "run_id")
    target, reason = _text(fields, "trigger_dag_id"), _text(fields, "reason")
    if not (dag_id and run_id):
        raise errors.invalid("dag_id and run_id of the dead letter are missing")
    return answer(
        replaying.replay(connection_id, inbox_id, (dag_id, run_id), target, reason or "", Reader(user))
    )


def _text(fields: dict[str, Any], name: str) -> str | None:
    value = fields.get(name)
    if value is None or (isinstance(value, str) and _is_usable(value)):
        return value or None
    raise errors.invalid(f"{name} must be a string of at most {LONGEST_FIELD} characters")


def _is_usable(value: str) -> bool:
    """Whether a value can be looked up in any database, and kept as part of a key."""
    return len(value) <= LONGEST_FIELD and not UNUSABLE.search(value)


async def requires_usable_address(request: Request) -> None:
    """
    Accept only values that can be looked up.

    :raises PageError: one is too long, or has a NUL.
    """
    if not all(map(_is_usable, (*request.path_params.values(), *request.query_params.values()))):
        raise errors.invalid("The address has a value that is too long, or that no database can hold")


class Modules(StaticFiles):
    """
    The modules of the page. They hold no data, so that they need no authentication.

    A module that is requested with the current version is cached without a limit. Others are revalidated, so
    that a browser never mixes the modules of two versions.
    """

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        # A module is small, and is sent whole: many ranges in a header take some versions of Starlette long.
        headers = [(name, value) for name, value in scope["headers"] if name != b"range"]
        await super().__call__({**scope, "headers": headers}, receive, send)

    def lookup_path(self, path: str) -> Any:
        return super().lookup_path(path) if path.endswith(".js") else ("", None)

    def file_response(self, full_path: Any, stat_result: Any, scope: Any, status_code: int = 200) -> Response:
        response = super().file_response(full_path, stat_result, scope, status_code)
        is_current = Request(scope).query_params.get("v") == __version__
        response.headers["Cache-Control"] = (
            "public, max-age=31536000, immutable" if is_current else "no-cache"
        )
        response.headers["X-Content-Type-Options"] = "nosniff"
        if "content-type" in response.headers:
            response.headers["Content-Type"] = "text/javascript; charset=utf-8"
        return response


def application() -> FastAPI:
    """The application."""
    app = FastAPI(title="Workflow", docs_url=None, redoc_url=None, openapi_url=None)
    first = [Depends(airflow_server.get_user()), Depends(requires_usable_address)]
    for router in (of_user, of_connection, changing):
        app.include_router(router, prefix="/api", dependencies=first)
    app.mount("/static", Modules(directory=STATIC, check_dir=False))
    app.add_exception_handler(PageError, _failed)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(Exception, _unexpected)
    return app


def _failed(_: Request, error: Any) -> Response:
    headers = {} if error.retry_after is None else {"Retry-After": str(error.retry_after)}
    return answer({"error": error.body}, error.status, **headers)


def _invalid(request: Request, _: Exception) -> Response:
    # Without what was wrong, which would quote the request.
    return _failed(request, errors.invalid("The request is not what this page sends"))


def _unexpected(request: Request, _: Exception) -> Response:
    # The server logs the error, whose text may quote anything.
    return _failed(request, errors.unexpected())
