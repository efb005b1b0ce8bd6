"""
What to do about a call that failed, or about a paused inbox, in words for users.

The command ``doctor`` and the page of inboxes give the same advice.
"""

from __future__ import annotations

from airflow_provider_workflow.client.errors import (
    AuthenticationError,
    NotFoundError,
    RateLimitError,
    ServerError,
    TransportError,
    WorkflowError,
)
from airflow_provider_workflow.client.settings import USER_GRANT, Settings

INBOX_SCOPE = "external"
"""The scope that trigger inboxes require (docs/service.md 14.4)."""
SCOPE_FIX = f"set Scope to {INBOX_SCOPE}, or leave it empty"

DROPPED = "new events are dropped meanwhile"
_PAUSED = {
    "user": "a user paused it; to resume it: {resume}",
    "authentication": (
        "the credentials of the app's account expired: connect the account again; then: {resume}"
    ),
    "authentication_access_revoked": (
        "the access to the app's account was revoked: grant it again, and connect it; then: {resume}"
    ),
    "partner_revoked": "ask the maker of the connected app why it withdrew the access; then: {resume}",
    "subscribe_failed": "check the subscription's inputs with the connected app; then: {resume}",
    "migrate_failed": "{resume}; if that fails, {recreate}",
    "abandoned": "no messages were leased for a long time: unpause its listener; then: {resume}",
    "upstream_failures": (
        "check whether the connected app has a problem; when it is solved: {resume}"
    ),
}  # fmt: skip
"""By ``paused_reason`` (docs/service.md 2.3), an open enumeration."""
_OTHER = "find out why the inbox was paused; then: {resume}"


def fix_of_pause(reason: str | None, *, resume: str, recreate: str) -> str:
    """
    What to do about a paused inbox.

    :param reason: its ``paused_reason``.
    :param resume: how to resume it.
    :param recreate: how to delete it and create it again.
    """
    return _PAUSED.get(reason or "", _OTHER).format(resume=resume, recreate=recreate)


def fix_of_token(error: WorkflowError) -> str:
    """What to do if no token was issued."""
    if isinstance(error, AuthenticationError) and (
        error.status in (401, 403) or "client" in (error.code or "")
    ):
        return (
            "copy Client ID and Client secret again from the settings of your application;"
            " regenerating the secret invalidates the previous one"
        )
    return _fix(
        error, "Token URL", "it must be the URL of the token endpoint, exactly as the service documents it"
    )


def fix_of_api(error: WorkflowError, settings: Settings) -> str:
    """What to do if the trigger inbox API does not accept a call with a token."""
    if isinstance(error, AuthenticationError) and error.code == "invalid_audience":
        if settings.grant == USER_GRANT:
            return f"log in again with the scope {INBOX_SCOPE}"
        return f"set Scope to {INBOX_SCOPE}, and use a Token URL and a Base URL of the same service"
    if isinstance(error, AuthenticationError):
        return "request access to trigger inboxes for your application"
    if isinstance(error, NotFoundError):
        return f"check Inbox path ({settings.inbox_path}) and Base URL"
    return _fix(error, "Base URL and Inbox path", "they must lead to the API of the service")


def _fix(error: WorkflowError, field: str, otherwise: str) -> str:
    if isinstance(error, RateLimitError):
        return "too many requests were made; try again later"
    if isinstance(error, ServerError):
        return "the service reports an internal error; try again later"
    if isinstance(error, TransportError) and not error.sent:
        return f"check {field}, and the network connection to it"
    return f"check {field}: {otherwise}"
