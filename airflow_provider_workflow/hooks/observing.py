"""What the service answers, told to Airflow's metrics, for all who make calls through the hook."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from airflow_provider_workflow import clock, metrics

if TYPE_CHECKING:
    from airflow_provider_workflow.client.call import Call


def observer(conn_id: str) -> Callable[[Call[Any], Any], None]:
    """
    What a client tells of each attempt of a call: what it was answered, as a value or as an exception.

    :param conn_id: id of the Airflow connection.
    """

    def observe(call: Call[Any], outcome: Any) -> None:
        try:
            _observe(conn_id, call, outcome)
        except Exception as error:
            metrics.complain(error)

    return observe


def _observe(conn_id: str, call: Call[Any], outcome: Any) -> None:
    from airflow_provider_workflow.client.errors import RateLimitError

    if isinstance(outcome, RateLimitError) and outcome.status == 429:
        metrics.incr(metrics.RATE_LIMITED.name, 1, {"conn_id": conn_id, "family": call.family.value})
    look = _OF_CALLS.get(call.name)
    if look is not None:
        look(conn_id, call, outcome)


def _leased(conn_id: str, call: Call[Any], outcome: Any) -> None:
    from airflow_provider_workflow.client.errors import InboxPausedError

    if isinstance(outcome, InboxPausedError):
        outcome = {}
    if not isinstance(outcome, Mapping):
        return
    messages = outcome.get("results") or []
    where = {"inbox": _inbox_of(call), "conn_id": conn_id}
    metrics.count(metrics.LEASED, len(messages), **where)
    now = clock.now()
    metrics.gauge(metrics.OLDEST_AGE, max((_age(message, now) for message in messages), default=0.0), **where)


def _acknowledged(conn_id: str, call: Call[Any], outcome: Any) -> None:
    from airflow_provider_workflow.client.errors import LeaseExpiredError

    where = {"inbox": _inbox_of(call), "conn_id": conn_id}
    wanted = len(set((call.json or {}).get("message_ids") or ()))
    if isinstance(outcome, LeaseExpiredError):
        metrics.count(metrics.LEASE_EXPIRED, max(1, wanted), **where)
    elif isinstance(outcome, Mapping):
        done = len(outcome.get("results") or [])
        metrics.count(metrics.ACKNOWLEDGED, done, **where)
        metrics.count(metrics.LEASE_EXPIRED, wanted - done, **where)


def _released(conn_id: str, call: Call[Any], outcome: Any) -> None:
    if isinstance(outcome, Mapping):
        done = len(outcome.get("results") or [])
        metrics.count(metrics.RELEASED, done, inbox=_inbox_of(call), conn_id=conn_id)


def _named(_: str, __: Call[Any], outcome: Any) -> None:
    for inbox in (outcome.get("results") or [outcome]) if isinstance(outcome, Mapping) else ():
        if isinstance(inbox.get("id"), str) and isinstance(name := inbox.get("name"), str) and name:
            metrics.remember_name(inbox["id"], name)


_OF_CALLS: dict[str, Callable[[str, Call[Any], Any], None]] = {
    "lease_messages": _leased,
    "acknowledge_messages": _acknowledged,
    "release_messages": _released,
    "get_inbox": _named,
    "list_inboxes": _named,
    "ensure_inbox": _named,
    "create_inbox": _named,
}


def _inbox_of(call: Call[Any]) -> str:
    return call.path.split("/")[2]


def _age(message: Mapping[str, Any], now: float) -> float:
    """Seconds since a message was created; 0 where it does not say when."""
    try:
        created = datetime.fromisoformat(str(message.get("created_at")).replace("Z", "+00:00"))
    except ValueError:
        return 0.0
    if created.tzinfo is None:
        created = created.replace(tzinfo=timezone.utc)
    return max(0.0, now - created.timestamp())


MOST_SECRETS = 6
"""
Of a connection, secrets that stay masked in a triggerer: access token, refresh token and the Variable that
holds both, of this renewal and of the one before. What came before those is used up.
"""

_masked: dict[str, list[str]] = {}
_lock = threading.Lock()


def mask(secret: str) -> None:
    """Let nobody print this secret."""
    from airflow.sdk.log import mask_secret

    mask_secret(secret)


def mask_here(secret: str, connection_id: str) -> None:
    """
    Let nobody in this process print this secret, which takes the place of an older one of its connection.

    A triggerer lives for months: Airflow would keep every token that ever was, in ever longer regular
    expressions that are compiled with each new one.

    To tell the supervisor from a triggerer is a blocking call, and made from a thread it breaks the
    triggerer's own talk with the supervisor before Airflow 3.3.
    """
    from airflow.sdk._shared.secrets_masker import mask_secret

    with _lock:
        kept = [*(each for each in _masked.get(connection_id, ()) if each != secret), secret]
        _masked[connection_id] = kept[-MOST_SECRETS:]
        for old in kept[:-MOST_SECRETS]:
            _forget(old)
    mask_secret(secret)


def _forget(secret: str) -> None:
    """Airflow has no public way to it; where its masker is another than we know, the secret stays masked."""
    with suppress(ImportError, AttributeError):
        from airflow.sdk._shared.secrets_masker import _secrets_masker

        masker = _secrets_masker()
        for each in masker._adaptations(secret):
            masker.patterns.discard(re.escape(each))
