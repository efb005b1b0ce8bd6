"""The application that Airflow's API server mounts below ``/workflow``: whose requests it accepts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fastapi import Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException

from airflow_provider_workflow.dispatch.run_errors import TargetError
from airflow_provider_workflow.plugin import access, dead_letters, page
from airflow_provider_workflow.plugin.responses import (
    ASSUMED_WAIT_SECONDS,
    PageError,
    answer,
    invalid,
    usable,
)

STATIC = Path(__file__).parent / "static"
PAGE_HEADER = "X-Workflow-Page"
SAME_SITE = (None, "same-origin", "none")
"""Values of ``Sec-Fetch-Site`` with which a change is accepted; programs send none."""


async def _requires_page(request: Request) -> None:
    """
    Accept only requests of our page, or of a program.

    The user's cookie is sent with requests of other sites too, but these can send neither a header of their
    own nor JSON without the consent of the API server.

    :raises PageError: another site may have made the request.
    """
    if request.headers.get("Sec-Fetch-Site") not in SAME_SITE:
        raise PageError(403, "forbidden", "Another web site made this request", "use the page in Airflow")
    kind = request.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise invalid("The body must be JSON", "send Content-Type: application/json", 415)
    if request.headers.get(PAGE_HEADER) != "1":
        raise invalid("A header is missing", f"send {PAGE_HEADER}: 1")


async def _requires_usable_address(request: Request) -> None:
    """
    Accept only values that can be looked up.

    :raises PageError: one is too long, or has a NUL.
    """
    try:
        for value in (*request.path_params.values(), *request.query_params.values()):
            usable(value)
    except ValueError as error:
        raise invalid(f"A value of the address cannot be used: {error}") from None


class _Modules(StaticFiles):
    """
    The page's JavaScript, served without authentication because it contains no data.

    A browser asks whether one has changed, so that it never mixes the modules of two versions.
    """

    def file_response(self, *args: Any, **more: Any) -> Response:
        response = super().file_response(*args, **more)
        response.headers.update({"Cache-Control": "no-cache", "X-Content-Type-Options": "nosniff"})
        return response


def application() -> FastAPI:
    """The application."""
    app = FastAPI(title="Workflow", docs_url=None, redoc_url=None, openapi_url=None)
    of_all = [access.LOGGED_IN, Depends(_requires_usable_address)]
    app.include_router(page.user_routes, prefix="/api", dependencies=of_all)
    for routes in (page, dead_letters):
        app.include_router(routes.connection_routes, prefix="/api", dependencies=[*of_all, access.MAY_READ])
        app.include_router(
            routes.change_routes,
            prefix="/api",
            dependencies=[*of_all, access.MAY_EDIT, Depends(_requires_page)],
        )
    app.mount("/static", _Modules(directory=STATIC, check_dir=False))
    for kind in (PageError, TargetError, RequestValidationError, 404, 405, Exception):
        app.add_exception_handler(kind, _failed)
    return app


def _failed(_: Request, error: Exception) -> Response:
    shown = _shown(error)
    wait = {} if shown.retry_after is None else {"Retry-After": str(shown.retry_after)}
    return answer({"error": shown.body}, shown.status, **wait)


def _shown(error: Exception) -> PageError:
    """The error that the page shows; never with a text that may quote the request or a secret."""
    if isinstance(error, PageError):
        return error
    if isinstance(error, TargetError):
        return PageError(503, "service_error", str(error), "try again later", ASSUMED_WAIT_SECONDS)
    if isinstance(error, HTTPException):  # of status 404 or 405: an id with a slash leads to no route
        title = "There is no such connection or inbox"
        return PageError(404, "not_found", title, "correct the address, or begin at the list of inboxes")
    if isinstance(error, RequestValidationError):
        return invalid("The request is not what this page sends")
    title = "This request failed for a reason that the page does not know"
    return PageError(500, "unexpected", title, "read the log of the API server, and report the defect")
