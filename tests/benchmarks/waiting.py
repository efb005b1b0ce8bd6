"""
What 300 watchers of 300 inboxes cost a triggerer, with and without event streams, beside a bare ``aiohttp``
loop of as many polls: CPU per poll, and memory.

The watchers poll far more often than they do by default, so that there is something to measure.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path

from airflow_provider_workflow.emulator.server import EmulatorServer
from tests.benchmarks.polling import KINDS, POLL_SECONDS, SETTLE_SECONDS, Cost, Kind
from tests.benchmarks.process import cpu_seconds, resident
from tests.benchmarks.results import Row, alone, compared
from tools.local_airflow import LocalAirflow

WATCHERS = 300
MEASURED_SECONDS = 60.0
QUICK_SECONDS = 10.0

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


def run(quick: bool) -> list[Row]:
    """Measure; ``quick`` for a shorter time, and one kind of watcher."""
    seconds = QUICK_SECONDS if quick else MEASURED_SECONDS
    with EmulatorServer() as service:
        for n in range(WATCHERS):
            service.open_inbox(f"inbox_{n}")
        idle = _triggerer(service, seconds)
        rows = [alone("memory of a triggerer without watchers", "MB", [idle.megabytes])]
        for name in ["notice"] if quick else list(KINDS):
            rows += _rows(service, name, seconds)
    return rows


def _rows(service: EmulatorServer, name: str, seconds: float) -> list[Row]:
    bare = _bare(service, KINDS[name], seconds)
    rows = []
    for streams in (False, True):
        what = f"{WATCHERS} {name} watchers, event streams {'on' if streams else 'off'}"
        ours = _triggerer(service, seconds, name, streams)
        each, beside = ours.milliseconds_per_poll, bare.milliseconds_per_poll
        rows.append(compared(f"{what}: CPU per poll", "ms", [each], "bare aiohttp loop", [beside]))
        rows.append(alone(f"{what}: memory of the triggerer", "MB", [ours.megabytes]))
    return rows


def _triggerer(service: EmulatorServer, seconds: float, name: str = "", streams: bool = False) -> Cost:
    """The process of a real triggerer in which the triggers run; without a name there are none."""
    folder = Path(tempfile.mkdtemp(prefix="workflow-bench-dags-"))
    home = Path(tempfile.mkdtemp(prefix="workflow-bench-"))
    operation = KINDS[name].operation if name else ""
    if name:
        (folder / "watchers.py").write_text(_dag_file(name, streams))
    connections = {"workflow_default": service.connection_json()}
    with LocalAirflow(home, folder, connections, quick=False) as airflow:
        if name:
            airflow.wait_for_dags(["consumer"])
            airflow.api.wait_until(lambda: _all_poll(service, operation), 180, "every watcher polls")
        time.sleep(SETTLE_SECONDS)
        runner = max(airflow.pids("triggerer"))
        polls, used = service.count(operation), cpu_seconds(runner)
        time.sleep(seconds)
        return Cost(service.count(operation) - polls, cpu_seconds(runner) - used, resident(runner))


def _dag_file(name: str, streams: bool) -> str:
    trigger = KINDS[name].trigger
    return DAG_FILE.format(
        kind=name, trigger=trigger, interval=POLL_SECONDS, streams=streams, watchers=WATCHERS
    )


def _bare(service: EmulatorServer, kind: Kind, seconds: float) -> Cost:
    """The floor: the same requests, and their answers decoded, without anything around them."""
    ids = [service.store.inboxes.find(f"inbox_{n}").id for n in range(WATCHERS)]
    given = {
        "base_url": service.base_url,
        "token": service.token(),
        "ids": ids,
        "kind": asdict(kind),
        "seconds": seconds,
    }
    command = [sys.executable, "-m", "tests.benchmarks.polling"]
    done = subprocess.run(command, input=json.dumps(given), capture_output=True, text=True, check=True)
    return Cost(**json.loads(done.stdout))


def _all_poll(service: EmulatorServer, operation: str) -> bool:
    before = service.count(operation)
    time.sleep(2 * POLL_SECONDS)
    return service.count(operation) - before >= 1.8 * WATCHERS
