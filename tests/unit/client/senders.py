"""Both senders with one face, so that one test speaks for both."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec, TypeVar
from urllib.parse import urlencode, urlsplit

from airflow_provider_workflow.client.aiohttp_transport import shared_session
from airflow_provider_workflow.client.async_client import AsyncWorkflowClient
from airflow_provider_workflow.client.call import Call, Calls
from airflow_provider_workflow.client.exchange import Gate
from airflow_provider_workflow.client.http_messages import Answer, Request
from airflow_provider_workflow.client.settings import Settings
from airflow_provider_workflow.client.sync_client import WorkflowClient
from airflow_provider_workflow.client.tokens import TokenCache
from airflow_provider_workflow.clock import use
from tests.unit.fake_clock import FakeClock

T = TypeVar("T")
P = ParamSpec("P")


class Sender:
    """
    :param clock: in use while it sends.
    """

    name: str
    client: Any

    def __init__(self, clock: FakeClock | None) -> None:
        self.clock = clock or FakeClock()
        self.tokens = TokenCache()
        self.gates: dict[Gate, float] = {}
        self.shared: dict[str, Any] = {"tokens": self.tokens, "gates": self.gates}

    @property
    def naps(self) -> list[float]:
        """The seconds of each wait."""
        return self.clock.slept

    def __call__(self, call: Call[T]) -> T:
        with use(self.clock):
            return self.client.send(call)  # type: ignore[no-any-return]

    def run(self, calls: Calls[P, T], *args: P.args, **options: P.kwargs) -> T:
        with use(self.clock):
            return self.client.run(calls, *args, **options)  # type: ignore[no-any-return]

    def close(self) -> None:
        self.client.close()


class SyncSender(Sender):
    name = "requests"

    def __init__(self, settings: Settings, clock: FakeClock | None = None, **options: Any) -> None:
        super().__init__(clock)
        self.client = WorkflowClient(settings, **{**self.shared, **options})


class AsyncSender(Sender):
    name = "aiohttp"

    def __init__(self, settings: Settings, clock: FakeClock | None = None, **options: Any) -> None:
        super().__init__(clock)
        self.loop = asyncio.new_event_loop()
        self._stack = contextlib.AsyncExitStack()
        entering = self._stack.enter_async_context(shared_session(settings.tls(), 10))
        session = self.loop.run_until_complete(entering)
        self.client = AsyncWorkflowClient(settings, session, **{**self.shared, **options})

    def __call__(self, call: Call[T]) -> T:
        return self._ended(self.client.send(call))

    def run(self, calls: Calls[P, T], *args: P.args, **options: P.kwargs) -> T:
        return self._ended(calls(self.client.send, *args, **options))

    def _ended(self, work: Coroutine[Any, Any, T]) -> T:
        with use(self.clock):
            return self.loop.run_until_complete(work)

    def close(self) -> None:
        self.loop.run_until_complete(self._stack.aclose())
        self.loop.close()


class _WithoutNetwork(WorkflowClient):
    """Whose requests are answered by a function."""

    reply: Callable[[bytes], Any]

    def exchange(self, request: Request) -> Answer:
        query = f"?{urlencode(request.query)}" if request.query else ""
        lines = [f"{request.method} {urlsplit(request.url).path}{query} HTTP/1.1"]
        lines += [f"{name}: {value}" for name, value in request.headers.items()]
        reply = self.reply("\r\n".join([*lines, "", ""]).encode() + (request.body or b""))
        head, _, body = reply.partition(b"\r\n\r\n")
        first, *headers = head.decode("latin-1").split("\r\n")
        fields = (line.partition(": ") for line in headers)
        return Answer(int(first.split()[1]), {name.lower(): value for name, _, value in fields}, body)


class StepsSender(Sender):
    """
    Sends calls without a network, for what is decided by the answer alone.

    :param reply: gives the bytes of a whole answer to the bytes of a request.
    """

    name = "steps"

    def __init__(self, settings: Settings, reply: Callable[[bytes], Any], **options: Any) -> None:
        super().__init__(options.pop("clock", None))
        self.client = _WithoutNetwork(settings, **{**self.shared, **options})
        self.client.reply = reply


SENDERS = {kind.name: kind for kind in (SyncSender, AsyncSender)}
