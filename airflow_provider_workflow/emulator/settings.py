"""Settings of the emulator: values that the service does not publish (docs/service.md 12)."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, ConfigDict, Field, StringConstraints
from pydantic.dataclasses import dataclass

Scope = Literal[
    "workflow", "workflow:write", "authentication", "promotions:read", "promotions:write", "external"
]
"""Scope names (docs/service.md 14.2)."""

InboxState = Literal["initializing", "active", "paused", "deleting", "initialization_failure"]

Family = Literal["guess", "templates", "inbox", "token", "promotions"]
"""Groups of calls with separate rate limits."""

STRICT = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)
"""Values of another type are not converted, and unknown names are rejected."""

Name = Annotated[str, StringConstraints(pattern=r"\S")]
"""A string that is not blank."""

Seconds = Annotated[float, Field(ge=0, le=1e12)]
AtLeastOne = Annotated[int, Field(ge=1, le=10**9)]

APP_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*(@(latest|\d+\.\d+\.\d+))?")
SLUG = re.compile(r"[a-z0-9][a-z0-9_-]*")
ASSUMED_VERSION = "1.0.0"


def resolve_app_key(app_key: str) -> str:
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


def _checked_app_key(app_key: str) -> str:
    resolve_app_key(app_key)
    return app_key


AppKey = Annotated[str, AfterValidator(_checked_app_key)]


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
    :param unknown_app_keys: apps that do not exist: a subscription to one of them is a 400. A key or slug
        stands for all versions of the app, a key with a version for that version. All other well-formed
        keys exist; assumed.
    :param rate_limit: requests per hour of each family of calls without a limit of its own; None sends no
        rate-limit headers. Assumed, and too high for tests to reach it.
    :param reset_header: ``X-RateLimit-Reset`` as ``epoch`` seconds or as a ``delta`` (docs/service.md 15).
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
    unknown_app_keys: Annotated[tuple[AppKey, ...], Field(strict=False)] = ()
    rate_limit: Annotated[int, Field(ge=0)] | None = 10_000_000
    reset_header: Literal["epoch", "delta"] = "epoch"
    list_order: Literal["oldest", "newest"] = "oldest"
    required_fields_only: bool = False
