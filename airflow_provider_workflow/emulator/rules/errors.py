"""The one exception of the rules: an answer that is not what was asked for."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any


class ServiceError(Exception):
    """
    The service refuses (docs/service.md 11).

    :param status: HTTP status code.
    :param code: machine-readable identifier.
    :param detail: explanation; for a bad field it names the field and the reason.
    :param source: ``pointer``, ``parameter`` or ``header`` at fault.
    :param headers: further headers of the answer.
    :param body: the whole body, where it is not the errors envelope.
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
    title = HTTPStatus(status).phrase
    return {"status": status, "code": code, "title": title, "detail": detail, "source": source, "meta": meta}


def invalid_field(field: str, reason: str) -> ServiceError:
    """Refuse a field of the body, naming it (docs/service.md 11.2)."""
    return ServiceError(400, "invalid", f"{field}: {reason}", source={"pointer": f"/{field}"})


def invalid_parameter(parameter: str, reason: str) -> ServiceError:
    """Refuse a query parameter, naming it (docs/service.md 11.1)."""
    return ServiceError(400, "invalid", f"{parameter}: {reason}", source={"parameter": parameter})


def not_found(what: str) -> ServiceError:
    """Refuse an address behind which there is nothing, or nothing any more."""
    return ServiceError(404, "not_found", f"{what} not found.")


def conflict(detail: str) -> ServiceError:
    """Refuse because something is in another state or form than asked for."""
    return ServiceError(409, "conflict", detail)


def oauth_error(status: int, error: str, description: str, *, basic: bool = False) -> ServiceError:
    """
    Refuse at the token endpoint, in the form of RFC 6749 5.2.

    :param basic: whether the client used HTTP Basic, which asks for a challenge header.
    """
    headers = {"WWW-Authenticate": 'Basic realm="token"'} if basic else None
    body = {"error": error, "error_description": description}
    return ServiceError(status, error, description, headers=headers, body=body)
