"""The bodies of requests, as the service checks them (docs/service.md 2.1 and 4)."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, Field, StringConstraints

from airflow_provider_workflow.emulator.rules.records import UUID, is_uuid
from airflow_provider_workflow.emulator.settings import Name, resolve_app_key

InboxName = Annotated[Name, StringConstraints(max_length=100)]
Url = Annotated[str, StringConstraints(pattern=r"^https?://([^/\[]|\[[^/]*\])", max_length=2048)]


def _checked_connection_id(value: Any) -> Any:
    if value is None or (isinstance(value, int) and not isinstance(value, bool)) or is_uuid(value):
        return value
    raise ValueError("must be a UUID, an integer or null")


class Body(BaseModel, strict=True):
    """A JSON object; unknown fields are ignored, and null is not the same as an omitted field."""


class LeaseBody(Body):
    """Of a lease."""

    lease_seconds: int = Field(300, ge=1, le=3600)
    lease_limit: int = Field(10, ge=1, le=100)


class EndBody(Body):
    """
    Of an acknowledgement or a release.

    :param message_ids: 1 to 100; empty, for the whole lease, if it is omitted.
    """

    lease_id: Annotated[str, StringConstraints(pattern=UUID, to_lower=True)]
    message_ids: list[Any] = Field([], min_length=1, max_length=100)


class Subscription(Body):
    """
    What an inbox is subscribed to.

    :param app_key: becomes the versioned form of responses.
    """

    app_key: Annotated[Name, AfterValidator(resolve_app_key)]
    action_key: Name
    inputs: dict[str, Any]
    connection_id: Annotated[Any, AfterValidator(_checked_connection_id)] = None

    def is_of(self, app_key: str) -> bool:
        """Whether its app is another one, or a version of it."""
        resolved = resolve_app_key(app_key)
        if "@" in app_key:
            return self.app_key == resolved
        return self.app_key.partition("@")[0] == resolved.partition("@")[0]


class InboxBody(Body):
    """
    Of a new inbox, whose name is sent as ``name``, ``key`` or both (docs/service.md 2.1).
    """

    name: InboxName | None = None
    key: InboxName | None = None
    subscription: Subscription
    notification_url: Url | None = None


class UpdateBody(Body):
    """Of a change of an inbox."""

    notification_url: Url | None = None


class GuessBody(Body):
    """Of a guess."""

    description: Any = None
