"""The receiver as a process, started by the commands of its page."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import aiohttp
import pytest

from airflow_provider_workflow.receiver import options
from tests.unit.documents import blocks, lines_of
from tests.unit.receiver.airflow import PASSWORD, USERNAME, FakeAirflow

HOME = {name: value for name, value in os.environ.items() if not name.startswith("WORKFLOW_RECEIVER")}
PAGE = "docs/notifications.md"
# As this interpreter runs them.
SHOW, SERVE = (
    [sys.executable, *shlex.split(line)[1:]] for block in blocks(PAGE, "bash") for line in lines_of(block)
)


class Process:
    """A receiver in a process of its own, whose output is kept."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.output = ""

    async def until(self, pattern: str) -> str:
        """Read on until a line matches; return its group."""
        assert self.process.stdout is not None
        while line := (await asyncio.wait_for(self.process.stdout.readline(), 30)).decode():
            self.output += line
            if found := re.search(pattern, line):
                return found[1]
        raise AssertionError(f"it ended without saying {pattern!r}:\n{self.output}")

    async def end(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        assert self.process.stdout is not None
        self.output += (await asyncio.wait_for(self.process.stdout.read(), 30)).decode()
        return await self.process.wait()


Start = Callable[..., Awaitable[Process]]


@pytest.fixture
async def start(tmp_path: Path) -> AsyncIterator[Start]:
    """Start a command."""
    started: list[Process] = []

    async def run(command: list[str], *more: str, **environment: str) -> Process:
        process = await asyncio.create_subprocess_exec(
            *command,
            *more,
            cwd=tmp_path,
            env={**HOME, **environment},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        started.append(Process(process))
        return started[-1]

    yield run
    for each in started:
        if each.process.returncode is None:
            each.process.kill()
            await each.process.wait()


async def post(port: str, path: str) -> int:
    async with (
        aiohttp.ClientSession(trust_env=False) as session,
        session.post(f"http://127.0.0.1:{port}{path}", json={"inbox_id": "x"}) as answer,
    ):
        return answer.status


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_the_commands_of_the_page_show_an_address_and_answer_it(
    airflow: FakeAirflow, start: Start, number: signal.Signals
) -> None:
    airflow.all_admins = True
    url = await (await start(SHOW)).until(r"^shipments\t(https://hooks\.example\.com/hooks/.{43})$")
    receiver = await start(SERVE, "--airflow-url", airflow.url, "--port", "0")
    port = await receiver.until(r"Listening on 127\.0\.0\.1, port (\d+)")
    (await airflow.next_run()).state = "running"
    assert await post(port, "/" + url.rpartition("/")[2]) == 200
    run = await airflow.next_run()
    assert (run.dag_id, run.conf) == ("dispatch_shipments", {"inbox": "shipments"})
    assert await receiver.end(number) == 0


async def test_no_secret_is_written_anywhere(airflow: FakeAirflow, start: Start, tmp_path: Path) -> None:
    secret = "the-secret-that-addresses-are-made-from"
    environment = {options.SECRET: secret, options.PASSWORD: PASSWORD}
    route = [sys.executable, "-m", "airflow_provider_workflow.receiver", "--route", "orders=dispatch"]
    path = (
        await (await start([*route, "--show-urls", "http://h"], **environment)).until("(/[^/]{43})$")
    ).strip()
    serve = [*route, "--airflow-url", airflow.url, "--airflow-username", USERNAME, "--port", "0"]
    receiver = await start(serve, **environment)
    port = await receiver.until(r"port (\d+)")
    (await airflow.next_run()).state = "running"
    airflow.tokens.clear()
    airflow.fault = (500, "no luck")
    for each in (path, path + "x", "/orders"):
        await post(port, each)
    await receiver.until("(no luck)")
    assert await receiver.end() == 0
    assert "started run notified__orders__" in receiver.output
    tokens = [f"token-{number}-of" for number in range(1, airflow.issued + 1)]
    assert len(tokens) > 1
    shown = [each for each in (secret, path[1:], PASSWORD, *tokens, "/orders") if each in receiver.output]
    assert not shown


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        (["--route", "orders"], "--route 'orders' is not INBOX=DAG_ID"),
        (["--host", "192.0.2.1"], "cannot listen on 192.0.2.1"),
        (["--port", "70000"], "cannot listen on 127.0.0.1, port 70000"),
    ],
)
async def test_what_is_wrong_is_said_in_a_sentence(start: Start, more: list[str], problem: str) -> None:
    receiver = await start(SERVE, *more)
    await receiver.until(f"error: .*({re.escape(problem)})")
    assert await receiver.process.wait() == 2


async def test_the_command_of_the_provider_does_the_same(airflow: FakeAirflow, start: Start) -> None:
    ours = [sys.executable, "-m", "airflow_provider_workflow.cli.main", "receiver"]
    airflow.all_admins = True
    shown = [
        await (await start([*command, *SHOW[3:]])).until(r"^shipments\t(https:\S+)$")
        for command in (ours, SHOW[:3])
    ]
    assert shown[0] == shown[1]
    receiver = await start([*ours, *SERVE[3:]], "--airflow-url", airflow.url, "--port", "0")
    port = await receiver.until(r"Listening on 127\.0\.0\.1, port (\d+)")
    assert (await airflow.next_run()).conf == {"inbox": "shipments"}
    assert await post(port, "/" + shown[0].rpartition("/")[2]) == 200
    assert await receiver.end() == 0
    wrong = await start([*ours, *SERVE[3:]], "--port", "70000")
    assert "port 70000" in await wrong.until("(Error: .*)")
    assert await wrong.process.wait() == 2


async def test_it_loads_no_airflow(start: Start) -> None:
    code = "import sys, airflow_provider_workflow.receiver.command; print('airflow' in sys.modules)"
    assert await (await start([sys.executable, "-c", code])).until("(.+)") == "False"
