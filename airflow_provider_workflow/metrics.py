"""
What happens to messages, as metrics of Airflow's own: all of them, named and explained in one table.

What the service answers (leased, acknowledged, released, how often it wants fewer calls) is counted by
an observer that ``WorkflowHook`` gives to its clients, so that no caller has to. What only the caller
knows (runs started, events made) he counts where it becomes true.

Nothing here raises, sends a request, or keeps an event loop waiting.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from airflow_provider_workflow import stats

if TYPE_CHECKING:
    from airflow_provider_workflow.client.call import Call

COUNTER = "counter"
GAUGE = "gauge"
OF_INBOX = ("inbox", "conn_id")


@dataclass(frozen=True)
class Metric:
    """
    One metric.

    :param name: as Airflow's Stats is given it; a configured prefix comes before it.
    :param kind: ``counter`` or ``gauge``.
    :param says: what it counts or measures, in one sentence.
    :param tags: what it is told apart by, where the metrics system of this Airflow has tags.
    """

    name: str
    kind: str
    says: str
    tags: tuple[str, ...] = OF_INBOX


LEASED = Metric("workflow.inbox.leased", COUNTER, "messages leased, each time that they are")
STARTED = Metric("workflow.inbox.started", COUNTER, "messages whose DAG run was started")
EXISTING = Metric("workflow.inbox.existing", COUNTER, "messages that came again and found their DAG run")
REFUSED = Metric(
    "workflow.inbox.refused",
    COUNTER,
    "messages that Airflow refused to hold, or that no expression could read",
)
RUNG = Metric("workflow.inbox.rung", COUNTER, "asset events that say that there is something to lease")
EMITTED = Metric("workflow.inbox.emitted", COUNTER, "messages carried in asset events")
REJECTED = Metric(
    "workflow.inbox.rejected", COUNTER, "messages that a watcher could not put into an asset event"
)
ACKNOWLEDGED = Metric("workflow.inbox.acknowledged", COUNTER, "messages acknowledged: gone from the inbox")
RELEASED = Metric("workflow.inbox.released", COUNTER, "messages given back before their lease ended")
LEASE_EXPIRED = Metric(
    "workflow.inbox.lease_expired",
    COUNTER,
    "messages whose lease had ended when they were acknowledged; they come again",
)
QUARANTINED = Metric(
    "workflow.inbox.quarantined", COUNTER, "messages found in quarantine: they start no run any more"
)
RATE_LIMITED = Metric(
    "workflow.rate_limited",
    COUNTER,
    "answers of the service that it wants fewer calls (429), by family of calls",
    ("conn_id", "family"),
)
OLDEST_AGE = Metric(
    "workflow.inbox.oldest_message_age",
    GAUGE,
    "seconds since the oldest message of the last lease was created; 0 where there was nothing to lease",
)

METRICS = (
    LEASED,
    STARTED,
    EXISTING,
    REFUSED,
    RUNG,
    EMITTED,
    REJECTED,
    ACKNOWLEDGED,
    RELEASED,
    LEASE_EXPIRED,
    QUARANTINED,
    RATE_LIMITED,
    OLDEST_AGE,
)
"""All metrics of this provider."""

MOST_NAMES = 10_000
_names: dict[str, str] = {}


def name_of(inbox: str) -> str:
    """
    The name of an inbox where this process has seen it, else its id.

    :param inbox: id or name.
    """
    return _names.get(inbox, inbox)


def count(metric: Metric, number: int, *, inbox: str, conn_id: str) -> None:
    """
    Count something that happened to messages of an inbox.

    :param metric: a counter of ``METRICS``.
    :param number: how many; nothing is sent for 0.
    :param inbox: id or name; the metric has the name, where this process has seen it.
    :param conn_id: id of the Airflow connection.
    """
    if number > 0:
        stats.incr(metric.name, number, {"inbox": name_of(inbox), "conn_id": conn_id})


def gauge(metric: Metric, value: float, *, inbox: str, conn_id: str) -> None:
    """
    Say how much of something an inbox has now.

    :param metric: a gauge of ``METRICS``.
    :param inbox: id or name; the metric has the name, where this process has seen it.
    :param conn_id: id of the Airflow connection.
    """
    stats.gauge(metric.name, value, {"inbox": name_of(inbox), "conn_id": conn_id})


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
        stats.incr(RATE_LIMITED.name, 1, {"conn_id": conn_id, "family": call.family.value})
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
    count(LEASED, len(messages), **where)
    now = time.time()
    gauge(OLDEST_AGE, max((_age(message, now) for message in messages), default=0.0), **where)


def _acknowledged(conn_id: str, call: Call[Any], outcome: Any) -> None:
    from airflow_provider_workflow.client.errors import LeaseExpiredError

    where = {"inbox": _inbox_of(call), "conn_id": conn_id}
    wanted = len(set((call.json or {}).get("message_ids") or ()))
    if isinstance(outcome, LeaseExpiredError):
        count(LEASE_EXPIRED, max(1, wanted), **where)
    elif isinstance(outcome, Mapping):
        done = len(outcome.get("results") or [])
        count(ACKNOWLEDGED, done, **where)
        count(LEASE_EXPIRED, wanted - done, **where)


def _released(conn_id: str, call: Call[Any], outcome: Any) -> None:
    if isinstance(outcome, Mapping):
        done = len(outcome.get("results") or [])
        count(RELEASED, done, inbox=_inbox_of(call), conn_id=conn_id)


def _named(_: str, __: Call[Any], outcome: Any) -> None:
    """Remember how inboxes are called: a name says more than an id does."""
    for inbox in (outcome.get("results") or [outcome]) if isinstance(outcome, Mapping) else ():
        if isinstance(inbox.get("id"), str) and isinstance(name := inbox.get("name"), str) and name:
            if len(_names) >= MOST_NAMES:
                _names.clear()
            _names[inbox["id"]] = name


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
