"""Checks of what clients send; every refusal names the field and the reason (specification 7.1)."""

from __future__ import annotations

import re
import uuid
from typing import Any
from urllib.parse import urlsplit

from airflow_provider_workflow.emulator.errors import ServiceError, invalid_field, invalid_parameter

_APP_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*(@(latest|\d+\.\d+\.\d+))?")
_SLUG = re.compile(r"[a-z0-9][a-z0-9_-]*")
ASSUMED_VERSION = "1.0.0"


def whole_number(body: dict[str, Any], field: str, default: int, low: int, high: int) -> int:
    """Read an integer of the body that lies between two bounds, both allowed."""
    value = body.get(field)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise invalid_field(field, f"must be an integer from {low} to {high}.")
    return value


def parameter_number(query: dict[str, str], name: str, default: int, low: int, high: int | None) -> int:
    """Read an integer of the query that lies between two bounds, both allowed."""
    text = query.get(name)
    if text is None:
        return default
    value = int(text) if re.fullmatch(r"\d{1,9}", text) else -1
    if value < low or (high is not None and value > high):
        raise invalid_parameter(name, f"must be an integer from {low} to {high or 'any'}.")
    return value


def optional_ids(body: dict[str, Any], field: str) -> list[str] | None:
    """Read a list of 1 to 100 message ids; None stands for the whole lease."""
    value = body.get(field)
    if value is None:
        return None
    if not isinstance(value, list) or not 1 <= len(value) <= 100:
        raise invalid_field(field, "must be a list of 1 to 100 ids.")
    if not all(isinstance(each, str) for each in value):
        raise invalid_field(field, "must hold strings only.")
    return value


def required_text(body: dict[str, Any], field: str) -> str:
    """Read a string that may not be missing or blank."""
    value = body.get(field)
    if value is None:
        raise invalid_field(field, "this field is required.")
    if not isinstance(value, str) or not value.strip():
        raise invalid_field(field, "must be a string that is not blank.")
    return value


def inbox_name(body: dict[str, Any], *, required: bool) -> str | None:
    """Read the name of an inbox, which newer clients call ``key``."""
    field = "key" if "name" not in body and "key" in body else "name"
    value = body.get(field)
    if value is None and not required:
        return None
    if len(required_text(body, field)) > 100:
        raise invalid_field(field, "must be at most 100 characters long.")
    return str(value)


def notification_url(body: dict[str, Any]) -> str | None:
    """Read the address that is told of messages."""
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


def subscription(body: dict[str, Any]) -> dict[str, Any]:
    """Read what an inbox subscribes to, with the app key in its versioned form."""
    value = body.get("subscription")
    if not isinstance(value, dict):
        raise invalid_field("subscription", "this field is required and must be an object.")
    try:
        app_key = resolve_app_key(required_text(value, "app_key"))
        action_key = required_text(value, "action_key")
        connection_id = _connection_id(value.get("connection_id"))
    except ServiceError as problem:
        raise _inside_subscription(problem) from None
    inputs = value.get("inputs")
    if inputs is not None and not isinstance(inputs, dict):
        raise _inside_subscription(invalid_field("inputs", "must be an object."))
    return {
        "app_key": app_key,
        "action_key": action_key,
        "inputs": inputs or {},
        "connection_id": connection_id,
    }


def resolve_app_key(app_key: str) -> str:
    """
    Write an app key in the versioned form that answers hold (service facts 2).

    The made-up rule: a slug ``my-shop`` names the app ``MyShopAPI``, and the newest version of
    everything is 1.0.0.
    """
    if not _APP_KEY.fullmatch(app_key):
        raise invalid_field("app_key", "must be an app's key or slug, with or without @version.")
    name, _, version = app_key.partition("@")
    if not version and _SLUG.fullmatch(name):
        name = "".join(part.capitalize() for part in re.split("[-_]", name)) + "API"
    return f"{name}@{version if version not in ('', 'latest') else ASSUMED_VERSION}"


def _connection_id(value: Any) -> Any:
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    try:
        uuid.UUID(value)
    except (ValueError, TypeError, AttributeError):
        raise invalid_field("connection_id", "must be a UUID, an integer or null.") from None
    return value


def _inside_subscription(problem: ServiceError) -> ServiceError:
    field, _, reason = problem.detail.partition(": ")
    return ServiceError(
        400, problem.code, f"subscription.{field}: {reason}", source={"pointer": f"/subscription/{field}"}
    )
