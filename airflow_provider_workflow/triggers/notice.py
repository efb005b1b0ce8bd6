"""``WorkflowInboxNoticeTrigger``: the doorbell of an inbox, for an asset watcher."""

from __future__ import annotations

from collections.abc import AsyncIterator

from airflow.triggers.base import BaseEventTrigger, TriggerEvent

from airflow_provider_workflow.client.arguments import filled, flag, intervals, seconds
from airflow_provider_workflow.triggers.base import SerializesArguments, sparing_the_triggerer

REST_SECONDS = 5.0
"""
How far two rings are apart at least. Airflow can strand an asset event that follows another within about
3 s; nothing depends on one event here, but a ring that starts nothing is of no use.
"""


class WorkflowInboxNoticeTrigger(SerializesArguments, BaseEventTrigger):
    """
    Makes an asset event whenever an inbox has something to lease; for an ``AssetWatcher``.

    The event carries no message: a DAG that is scheduled on the asset leases them, with
    ``WorkflowInboxDispatchOperator``. That is why no message depends on one event, of which Airflow may
    lose some (those that come while the DAG is paused, or close behind another): it rings again every
    ``renotify_seconds`` for as long as leasable messages remain, and rings once for a burst. It never
    leases; it listens to the inbox's event stream, and looks at its listing (docs/service.md 4
    and 5), ten pages at most each time. In an inbox with more pages than that it rings in doubt
    where something arrived that it has not seen yet, at most every ``renotify_seconds``.

    The event's payload is ``{"inbox", "inbox_id", "workflow_conn_id", "certain"}``; ``certain`` is False
    for a ring in doubt.

    It goes on for ever, also through faults that somebody has to mend (a wrong secret, no such inbox):
    it names them once as an ERROR, and tries again with growing pauses up to 300 s. A paused inbox is
    watched on, as it may hold messages.

    It holds arguments only; the connection is looked up when it runs, and no secret is serialised.
    Watchers with the same arguments in one DAG file are one trigger; those of one inbox in one triggerer
    share its event stream.

    :param inbox: id or name.
    :param workflow_conn_id: id of the Airflow connection.
    :param renotify_seconds: seconds between two rings for the same messages, 5 or more.
    :param poll_interval: seconds between two looks, above 0; doubles while there is no news.
    :param max_poll_interval: seconds that it doubles up to.
    :param wake_on_events: also listen to the inbox's event stream.
    :raises ValueError: names the argument that is out of range.
    """

    ARGUMENTS = (
        "inbox",
        "workflow_conn_id",
        "renotify_seconds",
        "poll_interval",
        "max_poll_interval",
        "wake_on_events",
    )

    def __init__(
        self,
        inbox: str,
        workflow_conn_id: str = "workflow_default",
        renotify_seconds: float = 60,
        poll_interval: float = 5,
        max_poll_interval: float = 60,
        wake_on_events: bool = True,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        with sparing_the_triggerer():
            self.inbox = filled("inbox", inbox)
            self.workflow_conn_id = filled("workflow_conn_id", workflow_conn_id)
            self.renotify_seconds = seconds("renotify_seconds", renotify_seconds, REST_SECONDS)
            self.poll_interval, self.max_poll_interval = intervals(poll_interval, max_poll_interval)
            self.wake_on_events = flag("wake_on_events", wake_on_events)

    def run(self) -> AsyncIterator[TriggerEvent]:
        """Ring for ever. It raises nothing: Airflow would begin anew every 2 s, without any back-off."""
        from airflow_provider_workflow.triggers.ringing import Ringer

        return Ringer(self).events()
