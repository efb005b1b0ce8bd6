"""A call as a request of the connection, and its answer without the secrets that the request held."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from urllib3.filepost import encode_multipart_formdata

from airflow_provider_workflow import __version__
from airflow_provider_workflow.client.call import Call, Family, Identity
from airflow_provider_workflow.client.environment import proxy_for
from airflow_provider_workflow.client.settings import Settings
from airflow_provider_workflow.client.wire import Answer, Request

SHORTEST_SECRET = 5
"""Characters; shorter ones (of tests) would tear every text apart."""
_HEADERS = {"Accept": "application/json", "User-Agent": f"airflow-provider-workflow/{__version__}"}
_ENCODER = json.JSONEncoder(separators=(",", ":"))


@dataclass(frozen=True)
class Bearer:
    """
    An access token that a call is sent with. Not as text: some reporters of errors print the variables of
    every frame.

    :param token: the access token.
    :param fresh: whether it was issued just now.
    """

    token: str = field(repr=False)
    fresh: bool


def build(
    settings: Settings,
    call: Call[Any],
    bearer: Bearer | None = None,
    proxy_of: Callable[[str], str | None] = proxy_for,
) -> Request:
    """
    A call as a request to the connection's own addresses: no other address is ever sent a token.

    :param bearer: for a call that needs an access token.
    :param proxy_of: tells the proxy for an address.
    :raises ConfigurationError: there is one that cannot be used.
    """
    base, path = _address(settings, call)
    headers = dict(_HEADERS)
    query = dict(call.query)
    body = None
    if call.identity is Identity.CLIENT_ID:
        query["client_id"] = settings.client_id
    elif call.identity is Identity.BASIC:
        headers["Authorization"] = f"Basic {_pair(settings)}"
    elif bearer is not None:
        headers["Authorization"] = f"Bearer {bearer.token}"
    if call.json is not None:
        body = _ENCODER.encode(call.json).encode()
        headers["Content-Type"] = "application/json"
    elif call.form is not None:
        body, headers["Content-Type"] = encode_multipart_formdata(dict(call.form))
    return Request(call.method, base + path, query, headers, body, settings.timeout, proxy_of(base))


def _pair(settings: Settings) -> str:
    return base64.b64encode(f"{settings.client_id}:{settings.client_secret}".encode()).decode()


def _address(settings: Settings, call: Call[Any]) -> tuple[str, str]:
    """One of the connection's two addresses, and what is appended to it."""
    if call.family is Family.INBOX:
        return settings.base_url, settings.inbox_path + call.path
    if call.family is Family.TEMPLATES:
        return settings.base_url, settings.templates_path + call.path
    if call.family is Family.TOKEN:
        return settings.token_url, ""
    return settings.base_url, call.path


def hide(answer: Answer, settings: Settings, call: Call[Any], bearer: Bearer | None = None) -> Answer:
    """An error's answer without the secrets that were sent: services quote them, and texts end in logs."""
    if answer.status < 300:
        return answer
    form = call.form or {}
    body = _plainly(answer.body)
    for secret in (
        settings.client_secret,
        _pair(settings),
        bearer and bearer.token,
        form.get("code"),
        form.get("refresh_token"),
    ):
        if secret and len(secret) >= SHORTEST_SECRET:
            for spelled in (secret, json.dumps(secret, ensure_ascii=False)[1:-1]):
                body = body.replace(spelled.encode(), b"***")
    return replace(answer, body=body)


def _plainly(body: bytes) -> bytes:
    """A JSON text in which every sign that can stands for itself: services escape "/", "é" or any other."""
    try:
        return json.dumps(json.loads(body), ensure_ascii=False).encode(errors="surrogatepass")
    except (ValueError, RecursionError):
        return body
