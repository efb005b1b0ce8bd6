"""Carrying faults out on the wire; ``faults.py`` says what each kind means."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlsplit

from airflow_provider_workflow.emulator import faults
from airflow_provider_workflow.emulator.errors import error_object
from airflow_provider_workflow.emulator.faults import Fault
from airflow_provider_workflow.emulator.web.context import Emulator
from airflow_provider_workflow.emulator.web.log import LoggedRequest
from airflow_provider_workflow.emulator.web.wire import JSON, Answer, Connection, Request


class Misbehaviour:
    """
    One request that goes wrong.

    :param act: has the effect of the request, and returns the answer that a good service sends.
    :param entry: its line in the log, whose ``status`` is what the client is sent.
    """

    def __init__(
        self,
        emulator: Emulator,
        fault: Fault,
        request: Request,
        connection: Connection,
        entry: LoggedRequest,
        act: Callable[[], Answer],
    ) -> None:
        self.emulator = emulator
        self.fault = fault
        self.request = request
        self.connection = connection
        self.entry = entry
        self.act = act

    async def run(self) -> None:
        """Do what the fault says."""
        await KINDS[self.fault.kind](self)

    async def status(self) -> None:
        self.effect()
        await self.send(self.chosen_answer())

    async def slow(self) -> None:
        await self.around(self.sleep)

    async def hold(self) -> None:
        await self.around(self.wait)

    async def drop(self) -> None:
        self.effect()
        await self.connection.cut(at_once=True)

    async def trickle(self) -> None:
        self.effect()
        self.entry.status = self.fault.status or 200
        await self.connection.start(self.entry.status, [(b"content-type", JSON.encode())])
        watcher = asyncio.ensure_future(self.connection.gone())
        while not watcher.done():
            await self.connection.write(b" ")
            await asyncio.wait([watcher], timeout=self.fault.seconds)

    async def truncate(self) -> None:
        answer = self.act()
        self.entry.status = answer.status
        await self.connection.start(answer.status, answer.raw_headers())
        await self.connection.write(answer.body[: len(answer.body) // 2])
        await self.connection.cut(at_once=False)

    async def not_json(self) -> None:
        self.effect()
        text = "<html>not JSON</html>" if self.fault.text is None else self.fault.text
        await self.send(Answer(self.fault.status or 200, text.encode(), self.fault.content_type or JSON))

    async def wrong_type(self) -> None:
        answer = self.act()
        answer.content_type = self.fault.content_type or "text/plain"
        await self.send(answer)

    async def big(self) -> None:
        answer = self.act()
        value = json.loads(answer.body or b"{}")
        padding: Any = "x" * self.fault.size
        value = [*value, padding] if isinstance(value, list) else {**value, "padding": padding}
        await self.send(Answer.of(answer.status, value, answer.headers))

    async def redirect(self) -> None:
        self.effect()
        headers = {"Location": self.fault.location or elsewhere(self.request)}
        await self.send(Answer(self.fault.status or 307, headers=headers))

    async def duplicate(self) -> None:
        answer = self.act()
        lease_id = json.loads(answer.body).get("lease_id") if answer.status == 201 else None
        if lease_id is None:
            self.emulator.faults.give_back(self.fault)  # it waits for a lease that hands something out
        else:
            self.emulator.store.messages.deliver_again(self.request.params["inbox_id"], lease_id)
        await self.send(answer)

    def effect(self) -> None:
        """Have the effect, where the fault comes after it."""
        if self.fault.when == "after":
            self.act()

    async def around(self, pause: Callable[[], Awaitable[bool]]) -> None:
        """Pause before or after the effect, which the request has in any case unless it is dropped."""
        answer = self.act() if self.fault.when == "after" else None
        if not await pause():
            await self.connection.cut(at_once=True)
            return
        await self.send(answer or self.act())

    async def sleep(self) -> bool:
        await asyncio.sleep(self.fault.seconds)
        return True

    async def wait(self) -> bool:
        return await self.emulator.holds.wait(
            self.fault.id, self.entry.operation, self.request.path, self.fault.when
        )

    async def send(self, answer: Answer) -> None:
        """Send an answer and note its status."""
        self.entry.status = answer.status
        await self.connection.send(answer)

    def chosen_answer(self) -> Answer:
        """Build the answer that a ``status`` fault asks for."""
        fault = self.fault
        status = fault.status or 500
        if fault.text is not None:
            return Answer(status, fault.text.encode(), fault.content_type or "text/html", dict(fault.headers))
        body = fault.json
        if body is None:
            full_details = {"message": fault.detail, "code": fault.code}
            meta = {"source": "emulator", "full_details": full_details} if status == 500 else None
            body = {"errors": [error_object(status, fault.code, fault.detail, None, meta)]}
        answer = Answer.of(status, body, dict(fault.headers))
        answer.content_type = fault.content_type or JSON
        return answer


KINDS = {name: getattr(Misbehaviour, name) for name in faults.KINDS}


def elsewhere(request: Request) -> str:
    """Name the same address on another host name of this machine."""
    parts = urlsplit(request.base_url)
    host = "localhost" if parts.hostname == "127.0.0.1" else "127.0.0.1"
    return f"{parts.scheme}://{host}:{parts.port}{request.path}"
