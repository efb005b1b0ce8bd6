"""Settings of the emulator: values that the service does not publish (docs/service.md 12)."""

from __future__ import annotations

from dataclasses import dataclass

KNOWN_SCOPES = frozenset(
    {"workflow", "workflow:write", "authentication", "promotions:read", "promotions:write", "external"}
)
"""Scope names (docs/service.md 14.2)."""

INBOX_STATES = ("initializing", "active", "paused", "deleting", "initialization_failure")

FAMILIES = ("guess", "templates", "inbox", "token", "promotions")
"""Groups of calls with separate rate limits."""

RATE_WINDOW_SECONDS = 3600.0
"""Limits are requests per hour (docs/service.md 15)."""


@dataclass(frozen=True)
class Settings:
    """
    The settings of the emulator. "assumed" marks a value that the service does not publish.

    :param client_id: client ID of the only application.
    :param client_secret: its client secret; a change invalidates the old one (docs/service.md 9.3).
    :param redirect_uris: the redirect URIs configured for the application (docs/service.md 10).
    :param loopback_redirects: also accept all redirect URIs of this machine; assumed.
    :param auto_approve: approve on the authorization page without a user.
    :param quarantine_after: leases without an acknowledgement before a message is quarantined, 1 or
        more; assumed.
    :param page_size: entries per page of a list, 1 or more; assumed.
    :param initializing_seconds: how long a new or resumed inbox is ``initializing``; assumed.
    :param deleting_seconds: how long a deleted inbox is listed as ``deleting``; assumed.
    :param keep_alive_seconds: seconds without an event before a comment is sent on an event stream, by the
        emulator's clock; assumed.
    :param token_seconds: lifetime of an access token (docs/service.md 9.3).
    :param code_seconds: lifetime of an authorization code (docs/service.md 10).
    :param unknown_app_keys: apps that do not exist: a subscription to one of them is a 400. A key or slug
        stands for all versions of the app, a key with a version for that version. All other well-formed
        keys exist; assumed.
    :param rate_limit: requests per hour of each family of calls without a limit of its own; None sends no
        rate-limit headers. Assumed, and too high for tests to reach it.
    :param reset_header: ``X-RateLimit-Reset`` as ``epoch`` seconds or as a ``delta`` (docs/service.md 15).
    :param list_order: ``oldest`` or ``newest`` first; assumed.
    :param acked_stay_listed: whether lists include acknowledged messages; assumed.
    :param notify_redelivery: whether messages that become available again are announced on the event stream
        and by webhook; assumed. False is the harder case for a client.
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
