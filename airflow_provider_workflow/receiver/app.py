"""The web application: the right path rings a doorbell, any other is not there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Router
from starlette.types import Receive, Scope, Send

from airflow_provider_workflow.client.over_aiohttp import shared_session
from airflow_provider_workflow.receiver.addresses import Addresses
from airflow_provider_workflow.receiver.airflow_rest import AirflowRest
from airflow_provider_workflow.receiver.airflow_token import Credentials
from airflow_provider_workflow.receiver.doorbell import Doorbell

MOST_BODY_BYTES = 16 * 1024
"""Read of a body before the answer, so that the sender gets to its end. What it says is not looked at."""


@dataclass(frozen=True)
class Settings:
    """
    What a receiver has to know.

    :param routes: the dispatch DAG of each inbox.
    :param addresses: the paths of these inboxes.
    :param airflow_url: address of Airflow's API server, without a slash at its end.
    :param credentials: where tokens for it come from.
    :param ca_file: file of the CA certificates to trust; None for those that come with Python's ``certifi``.
    """

    routes: Mapping[str, str]
    addresses: Addresses = field(repr=False)
    airflow_url: str
    credentials: Credentials
    ca_file: str | None = None


class Receiver:
    """
    Answers notifications.

    An answer says nothing but whether the path is right, and comes before anything is done about the
    notification, so the service never waits for Airflow.

    :param settings: what it answers, and whom it asks.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._bells: dict[str, Doorbell] = {}

    def app(self) -> Router:
        """The ASGI application."""
        return Router(default=self.answer, lifespan=lambda _: self._attending(), redirect_slashes=False)

    async def answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """200 to a POST to the path of an inbox, whatever it says; 404 to all else."""
        inbox = self._settings.addresses.inbox_of(scope["path"])
        if inbox is None or scope["method"] != "POST":
            answer = Response(status_code=404)
        else:
            self._bells[inbox].ring()
            await _read_some(Request(scope, receive))
            answer = Response(status_code=200)
        answer.headers["Connection"] = "close"
        await answer(scope, receive, send)

    @asynccontextmanager
    async def _attending(self) -> AsyncIterator[None]:
        """Have all doorbells answered, while the server runs."""
        import certifi

        settings = self._settings
        async with shared_session(settings.ca_file or certifi.where(), streams=0) as session:
            airflow = AirflowRest(settings.airflow_url, settings.credentials, session)
            for inbox, dag_id in settings.routes.items():
                bell = self._bells[inbox] = Doorbell(inbox, dag_id, airflow)
                bell.ring()  # for what nobody answered while no receiver ran
            tasks = [asyncio.create_task(bell.run()) for bell in self._bells.values()]
            try:
                yield
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)


async def _read_some(request: Request) -> None:
    left = MOST_BODY_BYTES
    try:
        async for chunk in request.stream():
            left -= len(chunk)
            if left < 0:
                return
    except ClientDisconnect:
        return
