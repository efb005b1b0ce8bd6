"""The errors of the service, and the checks of requests that raise them (docs/service.md 11)."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from http.client import responses
from typing import Any
from urllib.parse import urlsplit

from airflow_provider_workflow.emulator import settings
from airflow_provider_workflow.emulator.rules.records import MessageId, id_text, is_uuid


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


_SLUG = re.compile(r"[a-z0-9][a-z0-9_-]*")
ASSUMED_VERSION = "1.0.0"


def whole_number(body: dict[str, Any], field: str, default: int, low: int, high: int) -> int:
    """Read an integer of the body between two inclusive bounds; null is invalid."""
    value = body.get(field, default)
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise invalid_field(field, f"must be an integer from {low} to {high}.")
    return value


def parameter_number(query: Mapping[str, str], name: str, default: int, low: int, high: int | None) -> int:
    """Read an integer of the query between two inclusive bounds."""
    text = query.get(name)
    if text is None:
        return default
    value = int(text) if re.fullmatch(r"\d{1,9}", text) else -1
    if value < low or (high is not None and value > high):
        allowed = f"of {low} or more" if high is None else f"from {low} to {high}"
        raise invalid_parameter(name, f"must be an integer {allowed}.")
    return value


def optional_ids(body: dict[str, Any], field: str, known: Collection[str]) -> list[MessageId] | None:
    """
    Read a list of 1 to 100 message ids; None, for the whole lease, if it is omitted.

    :param known: ids in the inbox, as strings; these need not be UUIDs, as a test may have chosen them.
    """
    if field not in body:
        return None
    value = body[field]
    if not isinstance(value, list) or not 1 <= len(value) <= 100:
        raise invalid_field(field, "must be a list of 1 to 100 ids.")
    if not all(is_uuid(item) or _is_known(item, known) for item in value):
        raise invalid_field(field, "must hold UUIDs only.")
    return value


def required_uuid(body: dict[str, Any], field: str) -> str:
    """Read a required UUID."""
    value = required_text(body, field)
    if not is_uuid(value):
        raise invalid_field(field, "must be a UUID.")
    return value.lower()


def required_text(body: dict[str, Any], field: str) -> str:
    """Read a required string that is not blank."""
    value = body.get(field)
    if value is None:
        raise invalid_field(field, "this field is required.")
    if not isinstance(value, str) or not value.strip():
        raise invalid_field(field, "must be a string that is not blank.")
    return value


def inbox_name(body: dict[str, Any], *, required: bool) -> str | None:
    """Read the name of an inbox, sent as ``name``, ``key`` or both (docs/service.md 2.1)."""
    field = "key" if body.get("name") is None and body.get("key") is not None else "name"
    value = body.get(field)
    if value is None and not required:
        return None
    if body.get("key") not in (None, value):
        raise invalid_field("key", "must be the same as name.")
    if len(required_text(body, field)) > 100:
        raise invalid_field(field, "must be at most 100 characters long.")
    return str(value)


def notification_url(body: dict[str, Any]) -> str | None:
    """Read the notification URL."""
    value = body.get("notification_url")
    if value is None:
        return None
    if not isinstance(value, str) or len(value) > 2048:
        raise invalid_field("notification_url", "must be a URL of at most 2048 characters.")
    try:
        parts = urlsplit(value)
    except ValueError:
        parts = urlsplit("")
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise invalid_field("notification_url", "must be a URL that starts with http:// or https://.")
    return value


def subscription(body: dict[str, Any], unknown_app_keys: Collection[str] = ()) -> dict[str, Any]:
    """
    Read a subscription, and add the version to its app key.

    :param unknown_app_keys: apps that do not exist, from the settings.
    """
    value = body.get("subscription")
    if not isinstance(value, dict):
        raise invalid_field("subscription", "this field is required and must be an object.")
    try:
        app_key = resolve_app_key(required_text(value, "app_key"))
        if any(_is_same_app(app_key, unknown) for unknown in unknown_app_keys):
            raise invalid_field("app_key", f"there is no app {app_key}.")
        action_key = required_text(value, "action_key")
        connection_id = _connection_id(value.get("connection_id"))
    except ServiceError as problem:
        raise _inside_subscription(problem) from None
    inputs = value.get("inputs")
    if not isinstance(inputs, dict):
        raise _inside_subscription(
            invalid_field("inputs", "this field is required and must be an object; send {} for none.")
        )
    return {
        "app_key": app_key,
        "action_key": action_key,
        "inputs": inputs,
        "connection_id": connection_id,
    }


def resolve_app_key(app_key: str) -> str:
    """
    Convert an app key to the versioned form of responses (docs/service.md 2.1).

    Assumed: the slug ``my-shop`` stands for the app ``MyShopAPI``, and the latest version of each app is
    1.0.0.
    """
    if reason := settings.app_key(app_key):
        raise invalid_field("app_key", f"{reason}.")
    name, _, version = app_key.partition("@")
    if not version and _SLUG.fullmatch(name):
        name = "".join(part.capitalize() for part in re.split("[-_]", name)) + "API"
    return f"{name}@{version if version not in ('', 'latest') else ASSUMED_VERSION}"


def _is_same_app(app_key: str, other: str) -> bool:
    """Whether a resolved app key is the other one, or a version of it."""
    resolved = resolve_app_key(other)
    return app_key == resolved if "@" in other else app_key.partition("@")[0] == resolved.partition("@")[0]


def _connection_id(value: Any) -> Any:
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    if not is_uuid(value):
        raise invalid_field("connection_id", "must be a UUID, an integer or null.")
    return value


def _is_known(message_id: Any, known: Collection[str]) -> bool:
    return isinstance(message_id, (str, int, float)) and id_text(message_id) in known


def _inside_subscription(problem: ServiceError) -> ServiceError:
    field, _, reason = problem.detail.partition(": ")
    return ServiceError(
        400, problem.code, f"subscription.{field}: {reason}", source={"pointer": f"/subscription/{field}"}
    )
