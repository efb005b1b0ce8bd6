"""What the specification leaves open, each assumption named in one place."""

from __future__ import annotations

from dataclasses import dataclass

KNOWN_SCOPES = frozenset(
    {"workflow", "workflow:write", "authentication", "promotions:read", "promotions:write", "external"}
)
"""Scope names that appear in the specification (5.3)."""

INBOX_STATES = ("initializing", "active", "paused", "deleting", "initialization_failure")

FAMILIES = ("guess", "templates", "inbox", "token", "promotions")
"""The groups of calls that are rate limited apart from each other."""


@dataclass(frozen=True)
class Settings:
    """
    The emulator's knobs. "assumed" marks a value that the service does not publish.

    :param client_id: the one application that this service knows.
    :param client_secret: its secret; changing it makes the old one invalid (specification 5.1).
    :param redirect_uris: the redirect URIs configured for the application (specification 4.2).
    :param loopback_redirects: accept every redirect to this machine besides; assumed.
    :param auto_approve: answer the authorization page as if the user had approved at once.
    :param quarantine_after: leases that ended without acknowledgement before a message is
        quarantined, 1 or more; assumed.
    :param page_size: entries on a page of a list, 1 or more; assumed.
    :param initializing_seconds: how long a new or resumed inbox is ``initializing``; assumed.
    :param deleting_seconds: how long a deleted inbox is still seen as ``deleting``; assumed.
    :param keep_alive_seconds: silence on an event stream before a comment is sent, by the
        emulator's clock (one that stands still keeps silent); assumed.
    :param token_seconds: lifetime of an access token (specification 8).
    :param code_seconds: lifetime of an authorization code (specification 8).
    :param reset_header: ``X-RateLimit-Reset`` as ``epoch`` seconds (specification 8) or as a
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
    reset_header: str = "epoch"
    list_order: str = "oldest"
    acked_stay_listed: bool = False
    notify_redelivery: bool = False
