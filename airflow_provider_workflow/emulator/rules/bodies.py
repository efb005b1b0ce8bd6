"""The bodies of requests, and what is accepted in them (docs/service.md 4)."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, Field, StringConstraints

from airflow_provider_workflow.emulator.rules.records import UUID, is_uuid
from airflow_provider_workflow.emulator.settings import Name

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
