"""What is taken from an answer of the token endpoint (docs/service.md 9.2)."""

from __future__ import annotations

from typing import Any

from airflow_provider_workflow.client import types
from airflow_provider_workflow.client.errors import AuthenticationError

RENEW_EARLY_SECONDS = 300.0
LONGEST_LIFETIME_SECONDS = 30 * 86400.0
"""For an answer that promises more than anybody keeps."""
ASSUMED_LIFETIME_SECONDS = 3600.0
"""For an answer without ``expires_in`` (docs/service.md 9)."""


def access_token_of(answer: types.Token) -> str:
    """
    The access token of an answer.

    :raises AuthenticationError: the answer holds none that can be sent.
    """
    value = answer.get("access_token") if isinstance(answer, dict) else None
    if not (isinstance(value, str) and value and value.isascii() and value.isprintable()):
        raise AuthenticationError("the token endpoint answered without a usable access_token", status=200)
    return value


def times_of(answer: types.Token, asked_at: float) -> tuple[float, float]:
    """
    From when on a token is renewed before it is used, and from when on the service refuses it.

    :param asked_at: when it was asked for; its life counts from there.
    """
    life = _lifetime(answer)
    return asked_at + life - min(RENEW_EARLY_SECONDS, life / 2), asked_at + life


def _lifetime(answer: types.Token) -> float:
    given: Any = answer.get("expires_in")
    if isinstance(given, str):
        try:
            given = float(given)
        except ValueError:
            given = None
    if isinstance(given, bool) or not isinstance(given, (int, float)) or not given > 0:
        return ASSUMED_LIFETIME_SECONDS
    return float(min(given, LONGEST_LIFETIME_SECONDS))
