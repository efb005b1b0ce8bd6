"""
What our modules add to the parsing of a DAG file, beside those of other providers.

Each sample is a new process that has loaded what every DAG file has, and then imports all that a DAG file
can name of one provider, or what one recipe of ours names. They take turns.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

from benchmarks.results import Row, Target, alone, compared

ROUNDS = 30
QUICK_ROUNDS = 3
DAG_FILE = "from airflow.sdk import DAG, Asset, AssetWatcher, BaseOperator, BaseSensorOperator, task"
"""What is not counted: a DAG file loads it, whatever else is in it."""
DISCOVERY = "from airflow.providers_manager import ProvidersManager"
DISCOVER = f"{DISCOVERY}; ProvidersManager().initialize_providers_list()"
OURS = "airflow_provider_workflow"
INFO = {OURS, *(f"{OURS}.{name}" for name in ("get_provider_info", "config", "hooks", "hooks.connection"))}
"""All that Airflow has to load of a provider in order to know of it."""
HEAVY = {"aiohttp", "requests", "tenacity", "jmespath"}


@dataclass(frozen=True)
class Provider:
    """
    A package, and its modules that a DAG file can name.

    :param package: of the provider.
    :param modules: below it.
    """

    package: str
    modules: tuple[str, ...]

    @property
    def names(self) -> list[str]:
        return [f"{self.package}.{name}" for name in self.modules]


WORKFLOW = Provider(
    OURS,
    (
        *(
            f"operators.{n}"
            for n in (
                "inbox",
                "manage_inbox",
                "dead_letters",
                "workflows",
            )
        ),
        "sensors.inbox",
        "decorators.workflow_inbox",
        *(f"triggers.{n}" for n in ("inbox", "notice", "event")),
        "queues.inbox",
        "decorators.inbox_dag",
        "assets",
    ),
)
RECIPES = {
    "sensor": Provider(OURS, ("sensors.inbox",)),
    "notice trigger and dispatch operator": Provider(OURS, ("triggers.notice", "operators.inbox", "assets")),
    "event trigger": Provider(OURS, ("triggers.event", "assets")),
    "batches": Provider(OURS, ("decorators.workflow_inbox",)),
    "operators": Provider(OURS, tuple(name for name in WORKFLOW.modules if name.startswith("operators."))),
}
"""What a DAG file that follows one of them imports."""
BESIDE = {
    "http provider": Provider(
        "airflow.providers.http", ("operators.http", "sensors.http", "triggers.http", "notifications.http")
    ),
    "amazon provider, SQS alone": Provider(
        "airflow.providers.amazon.aws", ("operators.sqs", "sensors.sqs", "triggers.sqs", "queues.sqs")
    ),
    "standard provider": Provider(
        "airflow.providers.standard",
        (
            *(f"operators.{n}" for n in ("bash", "branch", "empty", "python", "trigger_dagrun")),
            *(f"sensors.{n}" for n in ("bash", "date_time", "external_task", "filesystem", "python")),
            *(f"triggers.{n}" for n in ("external_task", "file", "temporal")),
        ),
    ),
}
FAST = Target("ours", "<", 20)
TARGETS = {"ms": FAST, "cpu": FAST, "modules": Target("ours", "<", 25), "mb": None}
SHOWN = {
    "ms": ("time to import them", "ms"),
    "cpu": ("CPU to import them", "ms"),
    "modules": ("modules loaded by them", "modules"),
    "mb": ("memory taken by them", "MB"),
}


def run(quick: bool) -> list[Row]:
    """Measure; ``quick`` with few repeats."""
    samples = _in_turns({"": WORKFLOW, **RECIPES, **BESIDE}, QUICK_ROUNDS if quick else ROUNDS)
    ours = samples.pop("")
    recipes = {name: samples.pop(name) for name in RECIPES}
    rows = [
        compared(what, unit, ours[kind], name, theirs[kind], TARGETS[kind])
        for kind, (what, unit) in SHOWN.items()
        for name, theirs in samples.items()
    ]
    return [*rows, *_of_recipes(recipes), *_counted()]


def _of_recipes(samples: dict[str, dict[str, list[float]]]) -> list[Row]:
    """Of each recipe, what the targets are set for."""
    return [
        alone(f"{what}: {name}", unit, kinds[kind], TARGETS[kind])
        for kind, what, unit in (("ms", "time to import", "ms"), ("modules", "modules loaded by", "modules"))
        for name, kinds in samples.items()
    ]


def _in_turns(providers: dict[str, Provider], rounds: int) -> dict[str, dict[str, list[float]]]:
    """The samples of each provider. Its first import, which may compile, is not among them."""
    samples: dict[str, dict[str, list[float]]] = {name: {kind: [] for kind in SHOWN} for name in providers}
    for number in range(rounds + 1):
        for name, provider in providers.items():
            found = _imported(DAG_FILE, provider.names)
            for kind, value in {**found, "modules": len(found["modules"])}.items():
                if number:
                    samples[name][kind].append(value)
    return samples


def _counted() -> list[Row]:
    """What is the same each time."""
    loaded = set(_imported(DAG_FILE, WORKFLOW.names)["modules"])
    discovery = {name for name in _loaded_by(DISCOVER) if name.split(".")[0] == OURS}
    return [
        alone(
            "modules of the above that are ours",
            "modules",
            [len([name for name in loaded if name.split(".")[0] == OURS])],
        ),
        alone(
            f"of {', '.join(sorted(HEAVY))}: loaded by them",
            "modules",
            [len(loaded & HEAVY)],
            Target("ours", "<=", 0),
        ),
        alone(
            "loaded to discover providers, beyond the provider info",
            "modules",
            [len(discovery - INFO)],
            Target("ours", "<=", 0),
        ),
    ]


def _loaded_by(code: str) -> list[str]:
    """Every module of a process that has run this code."""
    return _run("-c", f"{code}\nimport json, sys; print(json.dumps(list(sys.modules)))")


def _imported(first: str, modules: list[str]) -> Any:
    return _run("-m", "benchmarks.imported", first, *modules)


def _run(*arguments: str) -> Any:
    # Installed packages are compiled, as pip does that; one from a clone is by its first import, if it may.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, check=False, env=environment
    )
    if done.returncode:
        raise RuntimeError(f"the measured process failed: {done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])
