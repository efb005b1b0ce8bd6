"""Settings of the emulator: values that the service does not publish (docs/service.md 12)."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass

from airflow_provider_workflow.emulator import checks

KNOWN_SCOPES = frozenset(
    {"workflow", "workflow:write", "authentication", "promotions:read", "promotions:write", "external"}
)
"""Scope names (docs/service.md 14.2)."""

INBOX_STATES = ("initializing", "active", "paused", "deleting", "initialization_failure")

FAMILIES = ("guess", "templates", "inbox", "token", "promotions")
"""Groups of calls with separate rate limits."""

RATE_WINDOW_SECONDS = 3600.0
"""Limits are requests per hour (docs/service.md 15)."""

APP_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*(@(latest|\d+\.\d+\.\d+))?")


def app_key(value: object) -> str | None:
    """Check the key or the slug of an app."""
    valid = isinstance(value, str) and APP_KEY.fullmatch(value)
    return None if valid else "must be an app's key or slug, with or without @version"


@dataclass(frozen=True)
class Settings:
    """
    The settings of the emulator. "assumed" marks a value that the service does not publish.

    :param client_id: client ID of the only application.
    :param client_secret: its client secret; a change invalidates the old one (docs/service.md 9.3).
    :param redirect_uris: the redirect URIs configured for the application (docs/service.md 10). The
        authorization page accepts no others; the first is the one of the emulator's connection.
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

    client_id: str = checks.field("demo-client", checks.name)
    client_secret: str = checks.field("demo-secret", checks.name)
    redirect_uris: tuple[str, ...] = checks.field(
        ("http://127.0.0.1:8900/callback",), checks.list_of(checks.name, 1)
    )
    auto_approve: bool = checks.field(False, checks.flag)
    quarantine_after: int = checks.field(5, checks.whole(1))
    page_size: int = checks.field(100, checks.whole(1))
    initializing_seconds: float = checks.field(0, checks.number(0))
    deleting_seconds: float = checks.field(0, checks.number(0))
    keep_alive_seconds: float = checks.field(15, checks.number(0))
    token_seconds: float = checks.field(36000, checks.number(0))
    code_seconds: float = checks.field(120, checks.number(0))
    unknown_app_keys: tuple[str, ...] = checks.field((), checks.list_of(app_key))
    rate_limit: int | None = checks.field(10_000_000, checks.nullable(checks.whole(0)))
    reset_header: str = checks.field("epoch", checks.one_of("epoch", "delta"))
    list_order: str = checks.field("oldest", checks.one_of("oldest", "newest"))
    acked_stay_listed: bool = checks.field(False, checks.flag)
    notify_redelivery: bool = checks.field(False, checks.flag)

    def __post_init__(self) -> None:
        """
        :raises ValueError: a value is not valid; the text names the setting.
        """
        checks.verify(asdict(self), checks.checks_of(Settings))
