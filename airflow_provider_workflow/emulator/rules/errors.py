"""The errors of the service (docs/service.md 11)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from http.client import responses
from typing import Any

from pydantic import ValidationError


class ServiceError(Exception):
    """
    An error response of the service (docs/service.md 11).

    :param status: HTTP status code.
    :param code: machine-readable identifier.
    :param detail: explanation; for a bad field it names the field and the reason.
    :param source: ``pointer``, ``parameter`` or ``header`` that the error refers to.
    :param headers: further headers of the response.
    :param body: the body, if it is not the errors envelope.
    """

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        *,
        source: dict[str, str] | None = None,
        headers: dict[str, str] | None = None,
        body: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(f"{status} {code}: {detail}")
        self.status = status
        self.code = code
        self.detail = detail
        self.headers = headers or {}
        self.body = body or envelope(status, code, detail, source)


def envelope(
    status: int, code: str, detail: str, source: dict[str, str] | None = None, meta: Any = None
) -> dict[str, Any]:
    """Build the body of an error (docs/service.md 11.1)."""
    title = responses.get(status, "Error")
    error = {
        "status": status, "code": code, "title": title, "detail": detail, "source": source, "meta": meta
    }  # fmt: skip
    return {"errors": [error]}


def failure(code: str, message: str) -> dict[str, Any]:
    """Build the body of a 500 (docs/service.md 11.3)."""
    meta = {"source": "emulator", "full_details": {"message": message, "code": code}}
    return envelope(500, "error", "A server error occurred.", meta=meta)


def invalid_field(field: str, reason: str) -> ServiceError:
    """400 for an invalid field of the body (docs/service.md 11.2)."""
    return ServiceError(
        400, "invalid", f"{field}: {reason}", source={"pointer": f"/{field.replace('.', '/')}"}
    )


def invalid_value(error: ValueError) -> ServiceError:
    """400 for the first invalid field that a check names: one of pydantic, or ``<field>: <reason>``."""
    if not isinstance(error, ValidationError):
        field, _, reason = str(error).partition(": ")
        return invalid_field(field, reason)
    first = error.errors(include_url=False, include_context=False)[0]
    reason = first["msg"].removeprefix("Value error, ")
    # Where the name of a field is invalid, pydantic adds "[key]".
    return invalid_field(".".join(str(name) for name in first["loc"] if name != "[key]"), f"{reason}.")


def invalid_parameter(parameter: str, reason: str) -> ServiceError:
    """400 for an invalid query parameter (docs/service.md 11.1)."""
    return ServiceError(400, "invalid", f"{parameter}: {reason}", source={"parameter": parameter})


def parameter_number(query: Mapping[str, str], name: str, default: int, low: int, high: int = 10**9) -> int:
    """Read an integer of the query between two inclusive bounds."""
    text = query.get(name)
    if text is None:
        return default
    if not re.fullmatch(r"\d{1,9}", text) or not low <= int(text) <= high:
        raise invalid_parameter(name, f"must be an integer from {low} to {high}.")
    return int(text)


def conflict(detail: str) -> ServiceError:
    """409 for a call that does not fit the current state."""
    return ServiceError(409, "conflict", detail)
