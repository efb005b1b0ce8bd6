"""The routes of guess, templates, promotions and the editor (docs/service.md 7, 8 and 13)."""

from __future__ import annotations

from html import escape

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from airflow_provider_workflow.emulator.rules import validation
from airflow_provider_workflow.emulator.rules.errors import ServiceError
from airflow_provider_workflow.emulator.rules.oauth import PROMOTIONS
from airflow_provider_workflow.emulator.rules.workflows import DEFAULT_LIMIT, MAX_LIMIT
from airflow_provider_workflow.emulator.rules.workflows import guess as guess_workflow
from airflow_provider_workflow.emulator.rules.workflows import templates as list_templates
from airflow_provider_workflow.emulator.web.context import Emulator, JsonResponse, Operation, read_json


async def guess(emulator: Emulator, request: Request) -> Response:
    _check_client(emulator, request)
    try:
        body = await read_json(request)
    except ServiceError as problem:
        # Both forms of a 400 (docs/service.md 13.2).
        raise ServiceError(
            400, problem.code, problem.detail, body={**problem.body, "messages": [{"detail": problem.detail}]}
        ) from None
    return JsonResponse(guess_workflow(body.get("description"), _base_url(request)))


async def templates(emulator: Emulator, request: Request) -> Response:
    _check_client(emulator, request)
    query = request.query_params
    apps = [slug.strip() for slug in query.get("apps", "").split(",") if slug.strip()]
    limit = validation.parameter_number(query, "limit", DEFAULT_LIMIT, 1, MAX_LIMIT)
    offset = validation.parameter_number(query, "offset", 0, 0, None)
    return JsonResponse(list_templates(_base_url(request), apps, limit, offset))


async def unenroll(emulator: Emulator, request: Request) -> Response:
    emulator.store.tokens.admit(request.headers.get("authorization"), PROMOTIONS)
    emulator.store.promotions.unenroll(request.path_params["enrollment_id"])
    return Response(status_code=204)


async def editor(_: Emulator, request: Request) -> Response:
    """The page that ``prefilled_url`` of a guess opens."""
    items = "".join(f"<li>{escape(value)}</li>" for _, value in request.query_params.multi_items() if value)
    page = f"<!doctype html><title>Workflow editor</title><h1>Workflow editor</h1><ol>{items}</ol>\n"
    return HTMLResponse(page)


def _base_url(request: Request) -> str:
    return str(request.base_url).removesuffix("/")


def _check_client(emulator: Emulator, request: Request) -> None:
    if request.query_params.get("client_id") != emulator.store.settings.client_id:
        detail = "client_id: missing or unknown."
        raise ServiceError(401, "invalid_client_id", detail, source={"parameter": "client_id"})


OPERATIONS = (
    Operation("guess", "POST", "/v2/guess", "guess", guess),
    Operation("templates", "GET", "/v1/workflow-templates", "templates", templates),
    Operation("unenroll", "DELETE", "/v2/promotions/{enrollment_id}", "promotions", unenroll),
    Operation("editor", "GET", "/editor", "page", editor),
)
