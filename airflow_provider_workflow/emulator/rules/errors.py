"""The exception of the rules, and functions that make it."""

from __future__ import annotations

from http.client import responses
from typing import Any


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
        self.body = body or {"errors": [error_object(status, code, detail, source)]}


def error_object(
    status: int, code: str, detail: str, source: dict[str, str] | None = None, meta: Any = None
) -> dict[str, Any]:
    """Build an Error object (docs/service.md 11.1)."""
    title = responses.get(status, "Error")
    return {"status": status, "code": code, "title": title, "detail": detail, "source": source, "meta": meta}


def invalid_field(field: str, reason: str) -> ServiceError:
    """400 for an invalid field of the body (docs/service.md 11.2)."""
    return ServiceError(
        400, "invalid", f"{field}: {reason}", source={"pointer": f"/{field.replace('.', '/')}"}
    )


def invalid_parameter(parameter: str, reason: str) -> ServiceError:
    """400 for an invalid query parameter (docs/service.md 11.1)."""
    return ServiceError(400, "invalid", f"{parameter}: {reason}", source={"parameter": parameter})


def not_found(what: str) -> ServiceError:
    """404 for something that does not exist."""
    return ServiceError(404, "not_found", f"{what} not found.")


def conflict(detail: str) -> ServiceError:
    """409 for a call that does not fit the current state."""
    return ServiceError(409, "conflict", detail)


def oauth_error(status: int, error: str, description: str, *, basic: bool = False) -> ServiceError:
    """
    An error of the token endpoint, in the format of RFC 6749 5.2.

    :param basic: whether the client used HTTP Basic, which requires a challenge header.
    """
    headers = {"WWW-Authenticate": 'Basic realm="token"'} if basic else None
    body = {"error": error, "error_description": description}
    return ServiceError(status, error, description, headers=headers, body=body)
