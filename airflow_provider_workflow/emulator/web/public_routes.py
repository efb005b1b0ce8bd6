"""Guess, templates, promotions and the editor on the wire (specification 4.1 and 4.4, service facts 7, 8)."""

from __future__ import annotations

from html import escape
from urllib.parse import parse_qsl

from airflow_provider_workflow.emulator import validate
from airflow_provider_workflow.emulator.errors import ServiceError
from airflow_provider_workflow.emulator.guess import guess as guess_workflow
from airflow_provider_workflow.emulator.templates import DEFAULT_LIMIT, MAX_LIMIT
from airflow_provider_workflow.emulator.templates import templates as list_templates
from airflow_provider_workflow.emulator.tokens import PROMOTIONS
from airflow_provider_workflow.emulator.web.context import Emulator, Operation
from airflow_provider_workflow.emulator.web.wire import Answer, Request


def guess(emulator: Emulator, request: Request) -> Answer:
    _check_client(emulator, request)
    try:
        body = request.json()
    except ServiceError as problem:
        # Both forms of a 400: the specification's (2.5) and the envelope seen in the field.
        raise ServiceError(
            400, problem.code, problem.detail, body={**problem.body, "messages": [{"detail": problem.detail}]}
        ) from None
    return Answer.of(200, guess_workflow(body.get("description"), request.base_url))


def templates(emulator: Emulator, request: Request) -> Answer:
    _check_client(emulator, request)
    query = request.query
    apps = [slug.strip() for slug in query.get("apps", "").split(",") if slug.strip()]
    limit = validate.parameter_number(query, "limit", DEFAULT_LIMIT, 1, MAX_LIMIT)
    offset = validate.parameter_number(query, "offset", 0, 0, None)
    return Answer.of(200, list_templates(request.base_url, apps, limit, offset))


def unenroll(emulator: Emulator, request: Request) -> Answer:
    emulator.store.tokens.admit(request.header(b"authorization"), PROMOTIONS)
    emulator.store.promotions.unenroll(request.params["enrollment_id"])
    return Answer(204)


def editor(_: Emulator, request: Request) -> Answer:
    """Show where the address of a guess leads to."""
    query = parse_qsl(request.scope["query_string"].decode("latin-1"))
    items = "".join(f"<li>{escape(value)}</li>" for _, value in query)
    page = f"<!doctype html><title>Workflow editor</title><h1>Workflow editor</h1><ol>{items}</ol>\n"
    return Answer(200, page.encode(), "text/html; charset=utf-8")


def _check_client(emulator: Emulator, request: Request) -> None:
    if request.query.get("client_id") != emulator.store.settings.client_id:
        detail = "client_id: missing, or not that of an application."
        raise ServiceError(401, "invalid_client_id", detail, source={"parameter": "client_id"})


OPERATIONS = (
    Operation("guess", "POST", "/v2/guess", "guess", guess),
    Operation("templates", "GET", "/v1/workflow-templates", "templates", templates),
    Operation("unenroll", "DELETE", "/v2/promotions/{enrollment_id}", "promotions", unenroll),
    Operation("editor", "GET", "/editor", "page", editor),
)
