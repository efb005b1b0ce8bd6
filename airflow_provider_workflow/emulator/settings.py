"""What the service does not publish (docs/service.md 12), each assumption named in one place."""

from __future__ import annotations

from dataclasses import dataclass

KNOWN_SCOPES = frozenset(
    {"workflow", "workflow:write", "authentication", "promotions:read", "promotions:write", "external"}
)
"""Scope names (docs/service.md 14.2)."""

INBOX_STATES = ("initializing", "active", "paused", "deleting", "initialization_failure")

FAMILIES = ("guess", "templates", "inbox", "token", "promotions")
"""The groups of calls that are rate limited apart from each other."""

RATE_WINDOW_SECONDS = 3600.0
"""The limit header is described as requests per hour (docs/service.md 15)."""


@dataclass(frozen=True)
class Settings:
    """
    The settings of the emulator. "assumed" marks a value that the service does not publish.

    :param client_id: the one application that this service knows.
    :param client_secret: its secret; changing it makes the old one invalid (docs/service.md 9.3).
    :param redirect_uris: the redirect URIs configured for the application (docs/service.md 10).
    :param loopback_redirects: accept every redirect to this machine besides; assumed.
    :param auto_approve: answer the authorization page as if the user had approved at once.
    :param quarantine_after: leases that ended without acknowledgement before a message is
        quarantined, 1 or more; assumed.
    :param page_size: entries on a page of a list, 1 or more; assumed.
    :param initializing_seconds: how long a new or resumed inbox is ``initializing``; assumed.
    :param deleting_seconds: how long a deleted inbox is still seen as ``deleting``; assumed.
    :param keep_alive_seconds: silence on an event stream before a comment is sent, by the
        emulator's clock (one that stands still keeps silent); assumed.
    :param token_seconds: lifetime of an access token (docs/service.md 9.3).
    :param code_seconds: lifetime of an authorization code (docs/service.md 10).
    :param unknown_app_keys: apps that this service does not have: a subscription to one of them is a
        400. A key or slug stands for every version of the app, a key with a version for that one.
        Every other well-formed key is that of an app; assumed.
    :param rate_limit: requests per hour that each family of calls allows unless it has a limit of its
        own; None sends no rate headers. Assumed, and high enough that tests do not reach it.
    :param reset_header: ``X-RateLimit-Reset`` as ``epoch`` seconds (docs/service.md 15) or as a
        ``delta`` (seen in the field).
    :param list_order: ``oldest`` or ``newest`` first; assumed.
    :param acked_stay_listed: whether acknowledged messages stay in lists; assumed.
    :param notify_redelivery: whether messages that return to the queue are announced again on the
        event stream and by webhook; assumed. Off is the harder case for a client.
    """

    client_id: str = "demo-client"
    client_secret: str = "demo-secret"  # noqa: S105 - the made-up secret of a made-up application
    redirect_uris: tuple[str, ...] = ("http://localhost:8080/workflow/callback",)
    loopback_redirects: bool = True
    auto_approve: bool = False
    quarantine_after: int = 5
    page_size: int = 100
    initializing_seconds: float = 0
    deleting_seconds: float = 0
    keep_alive_seconds: float = 15
    token_seconds: float = 36000
    code_seconds: float = 120
    unknown_app_keys: tuple[str, ...] = ()
    rate_limit: int | None = 10_000_000
    reset_header: str = "epoch"
    list_order: str = "oldest"
    acked_stay_listed: bool = False
    notify_redelivery: bool = False
