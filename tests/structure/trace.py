"""
``python -m tests.structure.trace dispatch|sensor``: what functions of the package a message passes through.

The service is the emulator and Airflow's supervisor is a fake one; everything between is real. ``dispatch``
is ``WorkflowInboxDispatchOperator.execute``. ``sensor`` is a deferrable ``WorkflowInboxSensor``: it executes
and defers, its trigger waits, the message arrives, the trigger fires, and the sensor resumes. Every cache is
empty at the beginning of each process that Airflow would start. The last line of the output is a JSON
object: ``functions`` of each file, both in the order of their first calls; the number of their ``calls``; how
many of them lead to another file than the call before (``file_changes``); and the ``requests`` of the
service.

Counted are functions, methods and lambdas; not comprehensions, nor class bodies, nor what runs because a
module is imported, nor the constructor of an operator (a DAG file calls it), nor the emulator.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import sys
import threading
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from airflow.providers.common.compat.sdk import TaskDeferred
from airflow.sdk.execution_time import task_runner

import airflow_provider_workflow
from airflow_provider_workflow import pytest_plugin
from airflow_provider_workflow.emulator.server import EmulatorServer
from airflow_provider_workflow.operators.inbox import WorkflowInboxDispatchOperator
from tests.unit.fakes import StateStore, Supervisor, TaskInstance
from tests.unit.sensors import tasks

PACKAGE = Path(airflow_provider_workflow.__file__).parent
INBOX = "orders"
TARGET = "handle"
WAIT_SECONDS = 30.0
"""How long the trigger may take until it waits for messages, and then until it has leased one."""
ARGUMENTS = {"inbox": INBOX, "trigger_dag_id": TARGET, "poll_interval": 60.0}
"""Of the sensor; if its trigger misses the announcement, the next poll is too late for this trace."""
STREAM_SECONDS = 0.2
"""How long after its headers an event stream may begin to announce messages."""

Functions = dict[str, list[str]]
"""The functions of each file."""


class Tracer:
    """Records what this thread calls, and every thread that begins meanwhile, but no older thread."""

    def __init__(self) -> None:
        self._codes: dict[CodeType, None] = {}
        self._last_files = threading.local()
        self.calls = 0
        self.file_changes = 0

    def __enter__(self) -> Tracer:
        threading.setprofile(self._called)
        sys.setprofile(self._called)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        threading.setprofile(None)

    def _called(self, frame: FrameType, event: str, _argument: object) -> None:
        code = frame.f_code
        # A coroutine or generator that goes on is a call event too, at a later line.
        is_first_line = event == "call" and frame.f_lineno == code.co_firstlineno
        if not is_first_line or not _is_counted(code) or _is_import(frame):
            return
        self._codes.setdefault(code)
        self.calls += 1
        self.file_changes += getattr(self._last_files, "name", code.co_filename) != code.co_filename
        self._last_files.name = code.co_filename

    @property
    def functions(self) -> Functions:
        """The functions of each file that were called."""
        functions: Functions = {}
        for code in self._codes:
            names = functions.setdefault(Path(code.co_filename).relative_to(PACKAGE).as_posix(), [])
            names.append(code.co_qualname)
        return functions


def _is_counted(code: CodeType) -> bool:
    if not code.co_filename.startswith(f"{PACKAGE}{os.sep}"):
        return False
    if Path(code.co_filename).relative_to(PACKAGE).parts[0] == "emulator":
        return False
    is_function = bool(code.co_flags & inspect.CO_OPTIMIZED)
    return is_function and (code.co_name == "<lambda>" or not code.co_name.startswith("<"))


def _is_import(frame: FrameType | None) -> bool:
    """Whether a frame runs because a module is imported for the first time."""
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


class Scene:
    """
    One inbox of the service, and what Airflow gives a running task.

    :param service: the emulator.
    """

    def __init__(self, service: EmulatorServer) -> None:
        self.service = service
        service.open_inbox(INBOX)
        self.supervisor = Supervisor(dags={TARGET})
        setattr(task_runner, "SUPERVISOR_COMMS", self.supervisor)  # noqa: B010 a task's process has it
        self.context: Any = {"ti": TaskInstance(supervisor=self.supervisor), "task_state_store": StateStore()}

    def put(self) -> None:
        """Let the message arrive."""
        self.service.put(INBOX, {"n": 1})

    def check(self) -> None:
        """
        :raises AssertionError: the message did not start exactly one run, or is not acknowledged.
        """
        statuses = [message["status"] for message in self.service.summary(INBOX)["messages"]]
        if len(self.supervisor.runs) != 1 or statuses != ["acked"]:
            raise AssertionError(f"{len(self.supervisor.runs)} runs started; messages are {statuses}")


def dispatch(scene: Scene, tracer: Tracer) -> None:
    """The dispatch operator finds the message and starts its run."""
    scene.put()
    operator = WorkflowInboxDispatchOperator(task_id="dispatch", inbox=INBOX, trigger_dag_id=TARGET)
    with tracer:
        operator.execute(scene.context)


def sensor(scene: Scene, tracer: Tracer) -> None:
    """The sensor defers, its trigger leases the message, and the sensor resumes and starts the run."""
    deferral = _defer(scene, tracer)
    pytest_plugin.reset()
    event = asyncio.run(_fire(scene, tracer, deferral))
    pytest_plugin.reset()
    brought = json.loads(json.dumps({**(deferral.kwargs or {}), "event": event}))
    resumed = tasks.sensor(**ARGUMENTS)
    with tracer:
        resumed.resume_execution(str(deferral.method_name), brought, scene.context)


def _defer(scene: Scene, tracer: Tracer) -> TaskDeferred:
    first = tasks.sensor(**ARGUMENTS)
    with tracer:
        try:
            first.execute(scene.context)
        except TaskDeferred as deferral:
            return deferral
    raise AssertionError("the sensor did not defer although its inbox is empty")


async def _fire(scene: Scene, tracer: Tracer, deferral: TaskDeferred) -> Any:
    """Run the trigger as Airflow does, from what it serialized; the payload of its event."""
    leases = scene.service.count("lease")
    with tracer:
        path, kwargs = deferral.trigger.serialize()
        module, _, name = path.rpartition(".")
        trigger = getattr(import_module(module), name)(**json.loads(json.dumps(kwargs)))
        trigger_task = asyncio.create_task(_payloads(trigger))
        await asyncio.wait_for(_until_it_waits(scene, leases), WAIT_SECONDS)
        scene.put()
        payloads = await asyncio.wait_for(trigger_task, WAIT_SECONDS)
        await trigger.cleanup()
    (payload,) = payloads
    return payload


async def _payloads(trigger: Any) -> list[Any]:
    return [event.payload async for event in trigger.run()]


async def _until_it_waits(scene: Scene, leases: int) -> None:
    """Until the trigger has found the inbox empty, and the service announces messages to it."""
    while not _is_waiting(scene, leases):  # noqa: ASYNC110 what it watches is in another thread
        await asyncio.sleep(0.01)
    await asyncio.sleep(STREAM_SECONDS)


def _is_waiting(scene: Scene, leases: int) -> bool:
    requests = scene.service.requests
    listens = any(request.operation == "events" and request.status == 200 for request in requests)
    return listens and scene.service.count("lease") > leases


PATHS: dict[str, Callable[[Scene, Tracer], None]] = {"dispatch": dispatch, "sensor": sensor}


def main(path: str) -> None:
    """Trace one of :data:`PATHS` and print what was called."""
    # Otherwise a trigger waits six seconds before its first lease.
    os.environ["AIRFLOW__WORKERS__MIN_HEARTBEAT_INTERVAL"] = "0"
    tracer = Tracer()
    with EmulatorServer() as service:
        os.environ["AIRFLOW_CONN_WORKFLOW_DEFAULT"] = service.connection_json()
        scene = Scene(service)
        PATHS[path](scene, tracer)
        scene.check()
        requests = len(service.requests)
    print(
        json.dumps(
            {
                "functions": tracer.functions,
                "calls": tracer.calls,
                "file_changes": tracer.file_changes,
                "requests": requests,
            }
        )
    )


if __name__ == "__main__":
    main(sys.argv[1])
