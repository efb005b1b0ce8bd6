"""The authorization page and the token endpoint on the wire (specification 4.2 and 4.3)."""

from __future__ import annotations

from html import escape
from urllib.parse import parse_qsl

from airflow_provider_workflow.emulator.errors import ServiceError
from airflow_provider_workflow.emulator.oauth import redirect_to
from airflow_provider_workflow.emulator.web.context import Emulator, Operation
from airflow_provider_workflow.emulator.web.forms import basic_credentials, read_form
from airflow_provider_workflow.emulator.web.wire import Answer, Request

TOKEN_PATH = "/oauth/token"  # noqa: S105 - an address, no secret
NOT_STORED = {"Cache-Control": "no-store", "Pragma": "no-cache"}
HTML = "text/html; charset=utf-8"


def token(emulator: Emulator, request: Request) -> Answer:
    try:
        answer = emulator.store.oauth.grant(read_form(request), basic_credentials(request))
    except ServiceError as problem:
        return Answer.of(problem.status, problem.body, {**NOT_STORED, **problem.headers})
    return Answer.of(200, answer, dict(NOT_STORED))


def authorize(emulator: Emulator, request: Request) -> Answer:
    """Show the page, or send the browser on at once."""
    return _decide(emulator, request.query, "approve" if emulator.store.settings.auto_approve else None)


def decide(emulator: Emulator, request: Request) -> Answer:
    """Take the user's decision."""
    form = dict(parse_qsl(request.body.decode("utf-8", "replace"), keep_blank_values=True))
    decision = form.pop("decision", "deny")
    return _decide(emulator, form, decision)


def _decide(emulator: Emulator, query: dict[str, str], decision: str | None) -> Answer:
    oauth = emulator.store.oauth
    try:
        oauth.check_page(query)
    except ServiceError as problem:
        return Answer(400, _page("Cannot authorize", escape(problem.detail)), HTML)
    fault = oauth.page_fault(query)
    if fault:
        return _redirect(redirect_to(query, error=fault))
    if decision is None:
        return Answer(200, _form(query), HTML)
    return _redirect(
        oauth.approve(query) if decision == "approve" else redirect_to(query, error="access_denied")
    )


def _redirect(location: str) -> Answer:
    return Answer(302, headers={"Location": location})


def _form(query: dict[str, str]) -> bytes:
    hidden = "".join(
        f'<input type="hidden" name="{escape(name)}" value="{escape(value)}">'
        for name, value in query.items()
    )
    scopes = "".join(f"<li>{escape(scope)}</li>" for scope in query["scope"].split())
    buttons = (
        '<button name="decision" value="approve">Approve</button> '
        '<button name="decision" value="deny">Deny</button>'
    )
    body = (
        f"<p>{escape(query['client_id'])} asks for:</p><ul>{scopes}</ul>"
        f'<form method="post" action="/v2/authorize">{hidden}{buttons}</form>'
    )
    return _page("Authorize the application?", body)


def _page(title: str, body: str) -> bytes:
    return f"<!doctype html><title>{title}</title><h1>{title}</h1>{body}\n".encode()


OPERATIONS = (
    Operation("token", "POST", TOKEN_PATH, "token", token),
    Operation("token", "POST", f"{TOKEN_PATH}/", "token", token),
    Operation("authorize", "GET", "/v2/authorize", "page", authorize),
    Operation("authorize", "POST", "/v2/authorize", "page", decide),
)
