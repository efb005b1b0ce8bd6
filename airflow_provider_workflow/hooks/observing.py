"""What the service answers, told to Airflow's metrics, for all who make calls through the hook."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from airflow_provider_workflow import clock, metrics, stats

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
            stats.complain(error)

    return observe


def _observe(conn_id: str, call: Call[Any], outcome: Any) -> None:
    from airflow_provider_workflow.client.errors import RateLimitError

    if isinstance(outcome, RateLimitError) and outcome.status == 429:
        stats.incr(metrics.RATE_LIMITED.name, 1, {"conn_id": conn_id, "family": call.family.value})
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
