"""The errors of the service (docs/service.md 11), and the bodies of requests."""

from __future__ import annotations

import re
from collections.abc import Mapping
from http.client import responses
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, Field, StringConstraints, ValidationError

from airflow_provider_workflow.emulator.rules.records import UUID, is_uuid
from airflow_provider_workflow.emulator.settings import Name


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


MAX_INBOX_NAME = 100
InboxName = Annotated[Name, StringConstraints(max_length=MAX_INBOX_NAME)]
Url = Annotated[str, StringConstraints(pattern=r"^https?://([^/\[]|\[[^/]*\])", max_length=2048)]


def _checked_connection_id(value: Any) -> Any:
    if value is None or (isinstance(value, int) and not isinstance(value, bool)) or is_uuid(value):
        return value
    raise ValueError("must be a UUID, an integer or null")


APP_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*(@(latest|\d+\.\d+\.\d+))?")
SLUG = re.compile(r"[a-z0-9][a-z0-9_-]*")
ASSUMED_VERSION = "1.0.0"


def _resolve_app_key(app_key: str) -> str:
    """
    Convert an app key to the versioned form of responses (docs/service.md 2.1).

    Assumed: the slug ``my-shop`` stands for the app ``MyShopAPI``, and the latest version of each app is
    1.0.0.

    :raises ValueError: it is neither a key nor a slug.
    """
    if not APP_KEY.fullmatch(app_key):
        raise ValueError("must be an app's key or slug, with or without @version")
    name, _, version = app_key.partition("@")
    if not version and SLUG.fullmatch(name):
        name = "".join(part.capitalize() for part in re.split("[-_]", name)) + "API"
    return f"{name}@{version if version not in ('', 'latest') else ASSUMED_VERSION}"


class Body(BaseModel, strict=True):
    """A JSON object; unknown fields are ignored, and null is not the same as an omitted field."""


class LeaseBody(Body):
    """The body of a lease."""

    lease_seconds: int = Field(300, ge=1, le=3600)
    lease_limit: int = Field(10, ge=1, le=100)


class EndBody(Body):
    """
    The body of an acknowledgement or a release.

    :param message_ids: 1 to 100; empty, for the whole lease, if it is omitted.
    """

    lease_id: Annotated[str, StringConstraints(pattern=UUID, to_lower=True)]
    message_ids: list[Any] = Field([], min_length=1, max_length=100)


class Subscription(Body):
    """
    What an inbox is subscribed to.

    :param app_key: becomes the versioned form of responses.
    """

    app_key: Annotated[Name, AfterValidator(_resolve_app_key)]
    action_key: Name
    inputs: dict[str, Any]
    connection_id: Annotated[Any, AfterValidator(_checked_connection_id)] = None


class InboxBody(Body):
    """The body of a new inbox, whose name is sent as ``name``, ``key`` or both (docs/service.md 2.1)."""

    name: InboxName | None = None
    key: InboxName | None = None
    subscription: Subscription
    notification_url: Url | None = None


class UpdateBody(Body):
    """The body of a change of an inbox."""

    notification_url: Url | None = None


class GuessBody(Body):
    """The body of a guess."""

    description: Any = None
