"""The routes of the authorization page and the token endpoint (docs/service.md 9.1 and 10)."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from html import escape
from urllib.parse import parse_qsl

from starlette.formparsers import MultiPartException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from airflow_provider_workflow.emulator.rules.errors import ServiceError
from airflow_provider_workflow.emulator.rules.oauth import redirect_to
from airflow_provider_workflow.emulator.web.context import (
    Emulator,
    JsonResponse,
    Operation,
    error_response,
    media_type,
)

TOKEN_PATH = "/oauth/token"  # noqa: S105 - a path, no secret
NOT_STORED = {"Cache-Control": "no-store", "Pragma": "no-cache"}


async def token(emulator: Emulator, request: Request) -> Response:
    """Issue tokens."""
    form = await read_form(request)
    try:
        granted = emulator.store.oauth.grant(form, basic_credentials(request))
    except ServiceError as error:
        return error_response(error, NOT_STORED)
    return JsonResponse(granted, headers=NOT_STORED)


async def authorize(emulator: Emulator, request: Request) -> Response:
    """Show the page, or redirect at once with ``auto_approve``."""
    return _decide(
        emulator, request.query_params, "approve" if emulator.store.settings.auto_approve else None
    )


async def decide(emulator: Emulator, request: Request) -> Response:
    """Act on the user's decision."""
    form = _urlencoded(await request.body())
    decision = form.pop("decision", "deny")
    return _decide(emulator, form, decision)


async def read_form(request: Request) -> dict[str, str]:
    """
    Read ``multipart/form-data`` or ``application/x-www-form-urlencoded``; anything else is empty.

    Starlette would read the second as Latin-1 if it is not percent-encoded.
    """
    kind = media_type(request)
    if kind == "application/x-www-form-urlencoded":
        return _urlencoded(await request.body())
    if kind != "multipart/form-data":
        return {}
    try:
        async with request.form() as form:
            return {
                name: part if isinstance(part, str) else (await part.read()).decode("utf-8", "replace")
                for name, part in form.items()
            }
    except MultiPartException:
        return {}


def basic_credentials(request: Request) -> tuple[str, str] | None:
    """Read client ID and secret of HTTP Basic; None without it, empty strings if it is malformed."""
    kind, _, value = (request.headers.get("authorization") or "").partition(" ")
    if kind.lower() != "basic":
        return None
    try:
        user, _, password = base64.b64decode(value, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return "", ""
    return user, password


def _urlencoded(body: bytes) -> dict[str, str]:
    return dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True))


def _decide(emulator: Emulator, query: Mapping[str, str], decision: str | None) -> Response:
    oauth = emulator.store.oauth
    try:
        oauth.check_page(query)
    except ServiceError as error:
        return HTMLResponse(_page("Cannot authorize", escape(error.detail)), 400)
    fault = oauth.page_fault(query)
    if fault:
        return RedirectResponse(redirect_to(query, error=fault), 302)
    if decision is None:
        return HTMLResponse(_form(query))
    if decision == "approve":
        return RedirectResponse(oauth.approve(query), 302)
    return RedirectResponse(redirect_to(query, error="access_denied"), 302)


def _form(query: Mapping[str, str]) -> str:
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


def _page(title: str, body: str) -> str:
    return f"<!doctype html><title>{title}</title><h1>{title}</h1>{body}\n"


OPERATIONS = (
    Operation("token", "POST", TOKEN_PATH, "token", token),
    Operation("token", "POST", f"{TOKEN_PATH}/", "token", token),
    Operation("authorize", "GET", "/v2/authorize", "page", authorize),
    Operation("authorize", "POST", "/v2/authorize", "page", decide),
)
