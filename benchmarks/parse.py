"""
What our modules add to the parsing of a DAG file, beside those of other providers.

Each sample is a new process that has loaded what every DAG file has, and then imports all that a DAG file
can name of one provider, or what one recipe of ours names. They take turns.
"""

from __future__ import annotations

import json
import subprocess
import sys
from functools import partial
from typing import Any

from benchmarks.results import Row, alone, compared, in_turns

ROUNDS = 10
QUICK_ROUNDS = 3
DAG_FILE = "from airflow.sdk import DAG, Asset, AssetWatcher, BaseOperator, BaseSensorOperator, task"
"""What is not counted: a DAG file loads it, whatever else is in it."""
OURS = "airflow_provider_workflow"
MEASURE = """
import importlib, json, sys, time
before, began_at = set(sys.modules), time.perf_counter()
for name in sys.argv[1:]:
    importlib.import_module(name)
print(json.dumps([(time.perf_counter() - began_at) * 1000, len(set(sys.modules) - before)]))
"""
UNITS = {"time to import": "ms", "modules loaded by": "modules"}
AT_MOST = {"ms": 20.0, "modules": 24.0}
"""What is aimed at, beyond what Airflow has loaded, by the unit."""


def names_of(package: str, *modules: str) -> list[str]:
    """The full names of modules of a package."""
    return [f"{package}.{module}" for module in modules]


OPERATORS = names_of(f"{OURS}.operators", "inbox", "manage_inbox", "dead_letters", "workflows")
TRIGGERS = names_of(f"{OURS}.triggers", "inbox", "notice", "event")
OTHERS = names_of(
    OURS, "sensors.inbox", "decorators.workflow_inbox", "queues.inbox", "decorators.inbox_dag", "assets"
)
WORKFLOW = [*OPERATORS, *OTHERS, *TRIGGERS]
"""All that a DAG file can name of ours."""
RECIPES = {
    "sensor": names_of(OURS, "sensors.inbox"),
    "notice trigger and dispatch operator": names_of(OURS, "triggers.notice", "operators.inbox", "assets"),
    "event trigger": names_of(OURS, "triggers.event", "assets"),
    "batches": names_of(OURS, "decorators.workflow_inbox"),
    "operators": OPERATORS,
}
"""What a DAG file that follows one of them imports."""
BESIDE = {
    "http provider": names_of(
        "airflow.providers.http", "operators.http", "sensors.http", "triggers.http", "notifications.http"
    ),
    "amazon provider, SQS alone": names_of(
        "airflow.providers.amazon.aws", "operators.sqs", "sensors.sqs", "triggers.sqs", "queues.sqs"
    ),
    "standard provider": [
        *names_of("airflow.providers.standard.operators", "bash", "branch", "empty", "python"),
        *names_of("airflow.providers.standard.operators", "trigger_dagrun"),
        *names_of("airflow.providers.standard.sensors", "bash", "date_time", "external_task", "filesystem"),
        *names_of("airflow.providers.standard.triggers", "external_task", "file", "temporal"),
    ],
}


def run(*, quick: bool) -> list[Row]:
    """Measure; ``quick`` with few repeats."""
    ways = {OURS: WORKFLOW, **RECIPES, **BESIDE}
    samples = in_turns(
        {name: partial(imported, modules) for name, modules in ways.items()},
        QUICK_ROUNDS if quick else ROUNDS,
    )
    rows = []
    for number, (title, unit) in enumerate(UNITS.items()):
        series = {
            name: [sample[number] for sample in sample_of_all] for name, sample_of_all in samples.items()
        }
        rows += [compared(f"{title} all of ours", unit, series[OURS], name, series[name]) for name in BESIDE]
        rows += [alone(f"{title}: {name}", unit, series[name], at_most=AT_MOST.get(unit)) for name in RECIPES]
    return rows


def imported(modules: list[str]) -> Any:
    """Milliseconds to import modules in a new process, and how many were loaded."""
    command = [sys.executable, "-c", f"{DAG_FILE}\n{MEASURE}", *modules]
    process = subprocess.run(command, capture_output=True, text=True)
    if process.returncode:
        raise RuntimeError(f"the measured process failed: {process.stderr}")
    return json.loads(process.stdout.splitlines()[-1])
