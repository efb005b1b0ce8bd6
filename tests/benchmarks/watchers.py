"""What 300 notice watchers of 300 inboxes cost a triggerer, beside a bare ``aiohttp`` loop of as many polls.

``python -m tests.benchmarks.watchers`` prints CPU per 1,000 polls and memory, with and without event streams.
The watchers poll far more often than they do by default, so that there is something to measure.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from airflow_provider_workflow.emulator.server import EmulatorServer
from tools.local_airflow import LocalAirflow

WATCHERS = 300
POLL_SECONDS = 3.0
SETTLE_SECONDS = 15.0
MEASURED_SECONDS = 60.0
TICKS = os.sysconf("SC_CLK_TCK")
MEGABYTE = 2**20

DAG_FILE = """
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, Asset, AssetAny, AssetWatcher

from airflow_provider_workflow.triggers.{kind} import {trigger} as Trigger


def watched(name):
    trigger = Trigger(
        name, poll_interval={interval}, max_poll_interval={interval}, wake_on_events={streams}
    )
    return Asset(name, watchers=[AssetWatcher(name=name, trigger=trigger)])


with DAG("consumer", schedule=AssetAny(*[watched("inbox_%d" % n) for n in range({watchers})])):
    EmptyOperator(task_id="nothing")
"""


@dataclass(frozen=True)
class Kind:
    """
    One kind of watcher.

    :param trigger: name of its class.
    :param operation: its polls, as the emulator counts them.
    :param method: of the request that a poll is.
    :param path: of it, below the inbox.
    :param body: of it.
    """

    trigger: str
    operation: str
    method: str
    path: str
    body: dict[str, int] | None = None


KINDS = {
    "notice": Kind("WorkflowInboxNoticeTrigger", "list_messages", "GET", "messages"),
    "event": Kind(
        "WorkflowInboxEventTrigger",
        "lease",
        "POST",
        "messages/lease",
        {"lease_seconds": 600, "lease_limit": 100},
    ),
}


def main(name: str) -> None:
    kind = KINDS[name]
    with EmulatorServer() as service:
        for n in range(WATCHERS):
            service.open_inbox(f"inbox_{n}")
        print(f"{WATCHERS} inboxes, each polled every {POLL_SECONDS:g} s, for {MEASURED_SECONDS:g} s")
        bare(service, kind)
        for watchers, streams in ((0, False), (WATCHERS, False), (WATCHERS, True)):
            text = DAG_FILE.format(
                kind=name, trigger=kind.trigger, interval=POLL_SECONDS, streams=streams, watchers=watchers
            )
            title = f"{watchers} {name} watchers, event streams {'on' if streams else 'off'}"
            if watchers:
                triggerer(service, kind.operation, title, text)
            else:
                triggerer(service, kind.operation, "a triggerer without watchers")


def triggerer(service: EmulatorServer, operation: str, title: str, dag_file: str = "") -> None:
    """The process of a real triggerer in which the triggers run."""
    folder = Path(tempfile.mkdtemp(prefix="workflow-bench-dags-"))
    home = Path(tempfile.mkdtemp(prefix="workflow-bench-"))
    (folder / "watchers.py").write_text(dag_file)
    connections = {"workflow_default": service.connection_json()}
    with LocalAirflow(home, folder, connections, quick=False) as airflow:
        if dag_file:
            airflow.wait_for_dags(["consumer"])
            airflow.api.wait_until(lambda: _all_poll(service, operation), 180, "every watcher polls")
        time.sleep(SETTLE_SECONDS)
        runner = max(airflow.pids("triggerer"))
        polls, used = service.count(operation), _cpu_seconds(runner)
        time.sleep(MEASURED_SECONDS)
        polls, used = service.count(operation) - polls, _cpu_seconds(runner) - used
        _say(title, polls, used, _resident(runner))


def bare(service: EmulatorServer, kind: Kind) -> None:
    """The floor: the same requests, and their answers decoded, without anything around them."""
    ids = [service.store.inboxes.find(f"inbox_{n}").id for n in range(WATCHERS)]
    given = {"base_url": service.base_url, "token": service.token(), "ids": ids, "kind": asdict(kind)}
    command = [sys.executable, "-m", "tests.benchmarks.watchers", "--bare"]
    done = subprocess.run(command, input=json.dumps(given), capture_output=True, text=True, check=True)
    _say("a bare aiohttp loop", **json.loads(done.stdout))


async def _poll_barely(base_url: str, token: str, ids: list[str], kind: dict[str, Any]) -> dict[str, float]:
    import aiohttp

    polls = 0
    of = Kind(**kind)

    async def poll(session: aiohttp.ClientSession, inbox_id: str) -> None:
        nonlocal polls
        while True:
            address = f"{base_url}/trigger-inbox/v1/inboxes/{inbox_id}/{of.path}"
            async with session.request(of.method, address, json=of.body) as answer:
                assert json.loads(await answer.read())["results"] == []
            polls += 1
            await asyncio.sleep(POLL_SECONDS)

    headers = {"Authorization": f"Bearer {token}"}
    async with aiohttp.ClientSession(headers=headers, connector=aiohttp.TCPConnector(limit=600)) as session:
        tasks = [asyncio.ensure_future(poll(session, inbox_id)) for inbox_id in ids]
        await asyncio.sleep(SETTLE_SECONDS)
        polls, used = 0, _cpu_seconds(os.getpid())
        await asyncio.sleep(MEASURED_SECONDS)
        used = _cpu_seconds(os.getpid()) - used
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        return {"polls": polls, "used": used, "resident": _resident(os.getpid())}


def _all_poll(service: EmulatorServer, operation: str) -> bool:
    before = service.count(operation)
    time.sleep(2 * POLL_SECONDS)
    return service.count(operation) - before >= 1.8 * WATCHERS


def _cpu_seconds(pid: int) -> float:
    if pid == os.getpid():
        used = resource.getrusage(resource.RUSAGE_SELF)
        return used.ru_utime + used.ru_stime
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def _resident(pid: int) -> float:
    """Memory in bytes."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize()


def _say(name: str, polls: int, used: float, resident: float) -> None:
    each = f"{used / polls * 1000:.2f} s of CPU per 1,000 polls" if polls else "no polls"
    print(f"{name}: {polls} polls, {used:.1f} s of CPU, {each}, {resident / MEGABYTE:.0f} MB", flush=True)


if __name__ == "__main__":
    if "--bare" in sys.argv:
        print(json.dumps(asyncio.run(_poll_barely(**json.load(sys.stdin)))))
    else:
        main(sys.argv[1] if len(sys.argv) > 1 else "notice")
