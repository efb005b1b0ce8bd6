"""User tokens through the triggerer's own line to its supervisor, which other triggers use meanwhile."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from airflow.jobs.triggerer_job_runner import TriggerCommsDecoder
from airflow.sdk.execution_time import task_runner
from airflow.sdk.execution_time.comms import GetVariable

from airflow_provider_workflow import airflow_internals
from airflow_provider_workflow.client import api
from airflow_provider_workflow.client.settings import Settings
from airflow_provider_workflow.emulator.server import EmulatorServer
from airflow_provider_workflow.hooks.user_tokens import VariableStore, variable_name
from tests.unit.client.stores import logged_in
from tests.unit.hooks.conftest import Connect

NAME = variable_name("workflow_default")
SOON = 200.0


class Supervisor:
    """The other end of a triggerer's line: keeps variables, answers in the order of the questions."""

    def __init__(self, line: socket.socket) -> None:
        self.values = {"other": "unchanged"}
        self.asked: list[str] = []
        self._line = line
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with self._line, self._line.makefile("rb") as stream:
            while head := stream.read(4):
                number, body, *_ = msgspec.msgpack.decode(stream.read(int.from_bytes(head, "big")))
                answer = msgspec.msgpack.encode([number, self._answer(body), None])
                self._line.sendall(len(answer).to_bytes(4, "big") + answer)

    def _answer(self, body: dict[str, Any]) -> dict[str, Any] | None:
        self.asked.append(body["type"])
        if body["type"] == "PutVariable":
            self.values[body["key"]] = body["value"]
        if body["type"] == "GetVariable":
            return {"type": "VariableResult", "key": body["key"], "value": self.values[body["key"]]}
        return None


@asynccontextmanager
async def triggerer(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Supervisor]:
    """This loop as that of a triggerer."""
    ours, theirs = socket.socketpair()
    supervisor = Supervisor(theirs)
    reader, writer = await asyncio.open_connection(sock=ours)
    comms = TriggerCommsDecoder(async_writer=writer, async_reader=reader, socket=ours)
    if hasattr(comms, "start_reader"):  # since Airflow 3.2 or 3.3
        await comms.start_reader()
    monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", comms, raising=False)
    monkeypatch.setenv("_AIRFLOW_PROCESS_CONTEXT", "client")
    yield supervisor
    if reading := getattr(comms, "_reader_task", None):
        reading.cancel()
    writer.close()


async def test_tokens_are_renewed_while_other_triggers_talk_to_the_supervisor(
    connect: Connect, emulator: EmulatorServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    hook = connect({"grant": "refresh_token", "verify": False})
    settings = hook.settings
    sealed: dict[str, str] = {}
    with monkeypatch.context() as patch:
        patch.setattr("airflow_provider_workflow.hooks.user_tokens.write_variable", sealed.__setitem__)
        store(settings).write(before := logged_in(emulator, SOON))
    async with triggerer(monkeypatch) as supervisor, hook.async_client() as client:
        supervisor.values.update(sealed)
        done = asyncio.Event()

        async def others() -> int:
            talks = 0
            while not done.is_set():
                answer = await task_runner.SUPERVISOR_COMMS.asend(GetVariable(key="other"))
                assert answer.value == "unchanged"
                talks += 1
            return talks

        talkers = [asyncio.create_task(others()) for _ in range(3)]
        pages = await asyncio.wait_for(
            asyncio.gather(*(client.send(api.list_inboxes()) for _ in range(5))), 20
        )
        done.set()
        assert sum(await asyncio.gather(*talkers)) > 0
    assert [page["results"] for page in pages] == [[]] * 5
    assert supervisor.asked.count("PutVariable") == 1
    assert emulator.count("token") == 1
    assert supervisor.values[NAME] != sealed[NAME]
    monkeypatch.setattr(
        "airflow_provider_workflow.hooks.user_tokens.read_variable", supervisor.values.__getitem__
    )
    after = store(settings).read()
    assert after is not None
    assert after.refresh_token != before.refresh_token
    assert emulator.requests[-1].headers["authorization"] == f"Bearer {after.access_token}"


def store(settings: Settings) -> VariableStore:
    return VariableStore(settings, airflow_internals.mask_in_triggerer)
