"""Settings of the emulator: values that the service does not publish (docs/service.md 12)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field, StringConstraints
from pydantic.dataclasses import dataclass

Scope = Literal[
    "workflow", "workflow:write", "authentication", "promotions:read", "promotions:write", "external"
]
"""Scope names (docs/service.md 14.2)."""

InboxState = Literal["initializing", "active", "paused", "deleting", "initialization_failure"]

STRICT = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)
"""Values of another type are not converted, and unknown names are rejected."""

Name = Annotated[str, StringConstraints(pattern=r"\S")]
"""A string that is not blank."""

Seconds = Annotated[float, Field(ge=0, le=1e12)]
AtLeastOne = Annotated[int, Field(ge=1, le=10**9)]


@dataclass(frozen=True, config=STRICT)
class Settings:
    """
    The settings of the emulator. "assumed" marks a value that the service does not publish.

    :param client_id: client ID of the only application.
    :param client_secret: its client secret; a change invalidates the old one (docs/service.md 9.3).
    :param redirect_uris: the redirect URIs configured for the application (docs/service.md 10). The
        authorization page accepts no others; the first is the one of the emulator's connection.
    :param quarantine_after: leases without an acknowledgement before a message is quarantined, 1 or
        more; assumed.
    :param page_size: entries per page of a list, 1 or more; assumed.
    :param initializing_seconds: how long a new or resumed inbox is ``initializing``; assumed.
    :param deleting_seconds: how long a deleted inbox is listed as ``deleting``; assumed.
    :param token_seconds: lifetime of an access token (docs/service.md 9.3).
    :param rate_limit: requests of each family of calls per window; None sends no rate-limit headers. Assumed,
        and too high for tests to reach it.
    :param rate_window_seconds: an hour (docs/service.md 15).
    :param list_order: ``oldest`` or ``newest`` first; assumed.
    :param required_fields_only: leave out of the answers what the service may leave out, so most fields of
        an inbox, of a message (its payload too) and of a template, and the links of lists.
    :raises ValueError: a value is not valid; the text names the setting.
    """

    client_id: Name = "demo-client"
    client_secret: Name = "demo-secret"  # noqa: S105 - the made-up secret of a made-up application
    redirect_uris: Annotated[tuple[Name, ...], Field(strict=False, min_length=1)] = (
        "http://127.0.0.1:8900/callback",
    )
    quarantine_after: AtLeastOne = 5
    page_size: AtLeastOne = 100
    initializing_seconds: Seconds = 0
    deleting_seconds: Seconds = 0
    token_seconds: Seconds = 36000
    rate_limit: Annotated[int, Field(ge=0)] | None = 10_000_000
    rate_window_seconds: Annotated[float, Field(gt=0)] = 3600
    list_order: Literal["oldest", "newest"] = "oldest"
    required_fields_only: bool = False
