"""
Lets a test stop the processes of Airflow at an exact point: before or after a call of a function.

Python imports this in every process that has this folder in its ``PYTHONPATH``. A point is armed by a file
``<point>.armed`` in the folder that ``WORKFLOW_TEST_STOPS`` names; it holds how often the point is to be
reached. The process that does so writes its id to ``<point>.reached`` and stands still until the file
``armed`` is gone, or until it is killed.
"""

from __future__ import annotations

import functools
import importlib.abc
import importlib.machinery
import inspect
import os
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

FUNCTIONS = {
    "hand off": ("airflow_provider_workflow.dispatch.lease", "HeldLease.hand_off"),
    "store event": ("airflow.models.trigger", "Trigger.submit_event"),
    "resume": ("airflow_provider_workflow.sensors.inbox", "WorkflowInboxSensor.resume"),
    "start run": ("airflow_provider_workflow.dispatch.runs", "TaskRuns.start"),
    "acknowledge": ("airflow_provider_workflow.hooks.workflow", "WorkflowHook.acknowledge_messages"),
}
"""The functions whose calls can be stopped before and after, by the step that each is."""
FOLDER = os.environ.get("WORKFLOW_TEST_STOPS")
LOOK_SECONDS = 0.05
_passed: Counter[str] = Counter()


def stop(point: str) -> None:
    """Stand still at a point, where it is armed; only the first process that comes by does."""
    armed, reached_file = (Path(str(FOLDER), f"{point}.{state}") for state in ("armed", "reached"))
    if not armed.exists():
        return
    _passed[point] += 1
    if _passed[point] != int(armed.read_text()):
        return
    try:
        with reached_file.open("x") as file:
            file.write(str(os.getpid()))
    except FileExistsError:
        return
    while armed.exists():
        time.sleep(LOOK_SECONDS)


def stopping(step: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, with a stop before and one after it."""

    @functools.wraps(function)
    def call(*arguments: Any, **keywords: Any) -> Any:
        stop(f"before {step}")
        value = function(*arguments, **keywords)
        stop(f"after {step}")
        return value

    return call


def wrap(module: ModuleType, step: str, path: str) -> None:
    """Put the stops around a function of a module."""
    *names, last = path.split(".")
    owner: Any = module
    for name in names:
        owner = getattr(owner, name)
    attribute = inspect.getattr_static(owner, last)
    if isinstance(attribute, classmethod):
        setattr(owner, last, classmethod(stopping(step, attribute.__func__)))
    else:
        setattr(owner, last, stopping(step, attribute))


class Finder(importlib.abc.MetaPathFinder):
    """Wraps functions of the modules above as they are imported."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        steps = [
            (step, attribute_path) for step, (module, attribute_path) in FUNCTIONS.items() if module == name
        ]
        spec = importlib.machinery.PathFinder.find_spec(name, path, target) if steps else None
        if spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def execute_and_wrap(module: ModuleType) -> None:
            execute(module)
            for step, attribute_path in steps:
                wrap(module, step, attribute_path)

        spec.loader.exec_module = execute_and_wrap  # type: ignore[method-assign]
        return spec


if FOLDER:
    sys.meta_path.insert(0, Finder())
