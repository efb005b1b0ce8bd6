"""
What happens to messages, as metrics of Airflow's own: all of them, named and explained in one table.

What the service answers (leased, acknowledged, released, how often it wants fewer calls) is counted by
``hooks/observing.py``, so that no caller has to. What only the caller knows (runs started, events made)
he counts where it becomes true.

Nothing here raises, sends a request, or keeps an event loop waiting.
"""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_workflow import stats

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
EXISTING = Metric("workflow.inbox.existing", COUNTER, "redelivered messages that found their DAG run")
REFUSED = Metric(
    "workflow.inbox.refused",
    COUNTER,
    "messages whose run Airflow rejected, that an expression failed on, or that have no id",
)
RUNG = Metric("workflow.inbox.rung", COUNTER, "asset events that say that there is something to lease")
EMITTED = Metric("workflow.inbox.emitted", COUNTER, "messages carried in asset events")
REJECTED = Metric(
    "workflow.inbox.rejected", COUNTER, "messages that a watcher could not put into an asset event"
)
ACKNOWLEDGED = Metric("workflow.inbox.acknowledged", COUNTER, "messages acknowledged: gone from the inbox")
RELEASED = Metric("workflow.inbox.released", COUNTER, "messages released before their lease expired")
LEASE_EXPIRED = Metric(
    "workflow.inbox.lease_expired",
    COUNTER,
    "messages whose lease had expired when they were acknowledged; they are redelivered",
)
QUARANTINED = Metric(
    "workflow.inbox.quarantined", COUNTER, "messages found in quarantine: they start no run any more"
)
RATE_LIMITED = Metric(
    "workflow.rate_limited",
    COUNTER,
    "rate-limit responses (429), per API family",
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


def remember_name(inbox_id: str, name: str) -> None:
    """Remember how an inbox is called: a name says more than an id does."""
    if len(_names) >= MOST_NAMES:
        _names.clear()
    _names[inbox_id] = name


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
