"""
The notification endpoint: ``POST /workflow/notify/<connection id>/<inbox>/<mac>`` in Airflow's API server.

A notification records an event of the inbox's asset, so the DAG that is scheduled on the asset runs::

    the service --POST--> NotificationEndpoint (is the mac right? 200 or 404, at once)
                          --> NotificationQueue (one flag per inbox) --> record_event (a thread, the database)

The URL is the only authentication, and lets its bearer do no more than that. Nothing of the body is used.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocketClose

from airflow_provider_workflow import clock
from airflow_provider_workflow.assets import uri_of
from airflow_provider_workflow.client.wire import plain
from airflow_provider_workflow.notifications import NotificationURLError, fernet_keys, notified_inbox
from airflow_provider_workflow.plugin.asset_events import Outcome, record_event

MOST_BODY_BYTES = 64 * 1024
"""Read of a body before the answer, so that the sender gets to its end."""
BODY_SECONDS = 5.0
"""How long that may take."""
PAUSE_SECONDS = 1.0
"""Between two transactions for the same inbox, in each process of the API server."""
MOST_THREADS = 2
"""Transactions at once, in each process of the API server."""
HIDDEN = "hidden"
"""In access logs, in the place of a mac."""
FIRST_BACKOFF_SECONDS = 1.0
LONGEST_BACKOFF_SECONDS = 60.0

Record = Callable[[str, dict[str, Any]], Outcome]

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class NotifiedInbox:
    """
    :param connection_id: id of the Airflow connection.
    :param name: name or id of the inbox.
    """

    connection_id: str
    name: str
    uri: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "uri", uri_of(self.name, self.connection_id))


class NotificationQueue:
    """
    Records an event for each notified inbox, however often it is notified.

    A notification is a flag, so any number of them takes no more memory than one. The flag is cleared before
    the database is read: whatever sets it afterwards causes another transaction. No notification is dropped
    because the database is unreachable; only the end of the process drops those not recorded by then.

    :param record: records an event of an asset; called in a thread.
    """

    def __init__(self, record: Record = record_event) -> None:
        self._record = record
        self._flags: set[NotifiedInbox] = set()
        self._tasks: dict[NotifiedInbox, asyncio.Task[None]] = {}
        self._outcomes: dict[NotifiedInbox, Outcome] = {}
        self._threads = ThreadPoolExecutor(MOST_THREADS, thread_name_prefix="workflow-notify")

    def put(self, inbox: NotifiedInbox) -> None:
        """Have an event recorded, and return at once. Needs a running event loop."""
        self._flags.add(inbox)
        if inbox not in self._tasks:
            self._tasks[inbox] = asyncio.create_task(self._process(inbox))

    async def _process(self, inbox: NotifiedInbox) -> None:
        try:
            while inbox in self._flags:
                self._flags.discard(inbox)
                self._log(inbox, await self._recorded(inbox))
                await clock.async_sleep(PAUSE_SECONDS)
        finally:
            del self._tasks[inbox]

    async def _recorded(self, inbox: NotifiedInbox) -> Outcome:
        """Record an event, and retry until that succeeds."""
        names = {"inbox": plain(inbox.name), "workflow_conn_id": plain(inbox.connection_id)}
        extra = {"from_notification": True, "payload": names}
        loop = asyncio.get_running_loop()
        backoff, problem = FIRST_BACKOFF_SECONDS, ""
        while True:
            try:
                return await loop.run_in_executor(self._threads, self._record, inbox.uri, extra)
            except Exception as error:  # of the database, of a listener of Airflow's: retried too
                if problem != type(error).__name__:
                    problem = type(error).__name__  # its text may contain the URL of the database
                    log.warning(
                        "Inbox %s was notified, but its asset event could not be recorded (%s); retrying",
                        plain(inbox.name),
                        problem,
                    )
            await clock.async_sleep(backoff * random.uniform(0.5, 1))  # noqa: S311 not a secret
            backoff = min(backoff * 2, LONGEST_BACKOFF_SECONDS)

    def _log(self, inbox: NotifiedInbox, outcome: Outcome) -> None:
        """Log an outcome; one that recurs for want of a DAG is logged once."""
        before, self._outcomes[inbox] = self._outcomes.get(inbox), outcome
        name = plain(inbox.name)
        if outcome is Outcome.RECORDED:
            log.info("Inbox %s was notified; the DAG that is scheduled on its asset runs", name)
        elif outcome is Outcome.PAUSED and outcome is not before:
            log.warning(
                "Inbox %s was notified, but the DAG that is scheduled on its asset is paused: unpause it; its"
                " messages wait for the next notification, or for the next notice of a watcher of the asset",
                name,
            )
        elif outcome is Outcome.NO_DAG and outcome is not before:
            log.warning(
                "Inbox %s was notified, but no DAG is scheduled on its asset %s: deploy one"
                " (schedule_of and create_asset of airflow_provider_workflow.assets)",
                name,
                inbox.uri,
            )


class NotificationEndpoint:
    """
    The ASGI application below ``/workflow/notify``.

    A right path is answered with an empty 200: a POST notifies, a GET only shows that the URL is right.
    All else is the 404 of a path that does not exist.

    :param queue: what records the events.
    """

    def __init__(self, queue: NotificationQueue | None = None) -> None:
        self._queue = queue or NotificationQueue()
        self._keys: Sequence[bytes] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await WebSocketClose()(scope, receive, send)
            return
        inbox = self._inbox_of(scope)
        if inbox is None or scope["method"] not in ("POST", "GET", "HEAD"):
            await JSONResponse({"detail": "Not Found"}, 404)(scope, receive, send)
            return
        if scope["method"] == "POST":
            self._queue.put(inbox)
            await _discard_body(receive)
        await Response(status_code=200)(scope, receive, send)

    def _inbox_of(self, scope: Scope) -> NotifiedInbox | None:
        """The inbox of a path with a right mac. Whatever is in the place of the mac is hidden from logs."""
        path: str = scope["path"]
        route = path.removeprefix(scope.get("root_path", ""))
        parts = route.split("/")[1:]
        if len(parts) > 2:
            # Airflow and uvicorn log the path of this very scope, after the answer has begun.
            scope["path"] = path.removesuffix(route) + "/".join(("", *parts[:2], HIDDEN))
        found = notified_inbox(parts, self._known_keys())
        return None if found is None else NotifiedInbox(*found)

    def _known_keys(self) -> Sequence[bytes]:
        """Airflow's Fernet keys, read once, as Airflow does; none where there are none."""
        if self._keys is None:
            try:
                self._keys = fernet_keys()
            except NotificationURLError as error:
                log.warning("Notifications of inboxes are answered with 404: %s", error)
                self._keys = ()
        return self._keys


async def _discard_body(receive: Receive) -> None:
    """Read a body up to its end, or to the limits."""
    left = MOST_BODY_BYTES
    with suppress(asyncio.TimeoutError):
        async with clock.timeout(BODY_SECONDS):
            while left >= 0:
                message = await receive()
                left -= len(message.get("body", b""))
                if not message.get("more_body"):
                    return
