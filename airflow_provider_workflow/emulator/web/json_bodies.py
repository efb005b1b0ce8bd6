"""Reads JSON requests, and writes JSON responses."""

from __future__ import annotations

import json
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse

from airflow_provider_workflow.emulator.rules.errors import ServiceError

JSON = "application/json"
_encode = json.JSONEncoder(separators=(",", ":")).encode


class JsonResponse(JSONResponse):
    """A response of ASCII JSON; Starlette's rejects lone surrogates and NaN, which payloads may have."""

    def render(self, content: Any) -> bytes:
        return _encode(content).encode()


def error_response(error: ServiceError, headers: dict[str, str] | None = None) -> JsonResponse:
    """
    The response of an error of the rules.
    """
    return JsonResponse(error.body, error.status, {**(headers or {}), **error.headers})


def media_type(request: Request) -> str:
    """The Content-Type of a request in lower case, without parameters; empty if it has none."""
    return (request.headers.get("content-type") or "").partition(";")[0].strip().lower()


async def read_json(request: Request) -> dict[str, Any]:
    """
    Read the body, which is a JSON object or empty.

    :raises ServiceError: 400 for another Content-Type, and 400 ``parse_error``.
    """
    if (await request.body()).strip() and media_type(request) != JSON:
        detail = f"Content-Type: must be {JSON} for a body of JSON."
        raise ServiceError(400, "invalid", detail, source={"header": "Content-Type"})
    return await read_any_json(request)


async def read_any_json(request: Request) -> dict[str, Any]:
    """
    Read the body regardless of its Content-Type: ``curl -d`` sends that of a form.

    :raises ServiceError: 400 ``parse_error``.
    """
    body = await request.body()
    if not body.strip():
        return {}
    try:
        value = json.loads(body)
    except ValueError:
        raise ServiceError(400, "parse_error", "The body is not JSON.") from None
    if not isinstance(value, dict):
        raise ServiceError(400, "parse_error", "The body must be a JSON object.")
    return value
