"""The emulator, on a real socket, and a fake Airflow for every unit test that wants them."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any
from weakref import WeakSet

import pytest
from airflow.sdk._shared.secrets_masker import _secrets_masker
from airflow.sdk.execution_time import task_runner
from hypothesis import is_hypothesis_test

from airflow_provider_workflow import clock as package_clock
from airflow_provider_workflow.client.requests_transport import RequestsWire
from airflow_provider_workflow.emulator.clock import ManualClock
from airflow_provider_workflow.emulator.server import EmulatorServer
from tests.unit.client.isolation import forget
from tests.unit.fake_clock import FakeClock
from tests.unit.fake_stats import fake_stats
from tests.unit.fakes import Supervisor
from tests.unit.fuzz import budget
from tests.unit.workbench import Workbench

__all__ = ["fake_stats"]
budget.load()

HERE = Path(__file__).parent
PROGRAMS = {"benchmarks", "tools", *(path.name for path in HERE.parent.iterdir())} - {"page"}
"""Folders here with tests of programs: each is named like its program."""
SLOW = {"fuzz", "matrix"}
"""Folders whose tests are slow as a whole: generated inputs, all combinations."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of programs, and those that start processes or try many inputs."""
    for item in items:
        folders = item.path.relative_to(HERE).parts[:-1] if item.path.is_relative_to(HERE) else ()
        if folders and folders[0] in PROGRAMS:
            item.add_marker("program")
        is_generated = is_hypothesis_test(getattr(item, "obj", None))
        if is_generated or SLOW.intersection(folders) or "pytester" in getattr(item, "fixturenames", ()):
            item.add_marker("slow")


@pytest.hookimpl(wrapper=True)
def pytest_report_to_serializable() -> Generator[None, Any, Any]:
    """Between processes only UTF-8 is sent, and what is tried here is at times none."""
    return encodable((yield))


def encodable(value: Any) -> Any:
    """The same value, whose texts show as an escape what UTF-8 cannot hold."""
    if isinstance(value, str):
        return value.encode(errors="backslashreplace").decode()
    if isinstance(value, dict):
        return {encodable(key): encodable(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(encodable(item) for item in value)
    return value


@pytest.fixture(autouse=True)
def masked_for_this_test_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    What one test lets Airflow mask, the next one prints again.

    Airflow masks for ever, and compiles all that it ever masked anew with each new secret: the longer the
    tests run the longer each takes, and words that one test masks are missing from what another shows.
    """
    masker = _secrets_masker()
    monkeypatch.setattr(masker, "patterns", set(masker.patterns))
    monkeypatch.setattr(masker, "replacer", masker.replacer)
    forget()


@pytest.fixture(autouse=True)
def recursion_limit() -> Iterator[None]:
    """Airflow raises the limit when it copies an operator; what is too deep stays so for the next test."""
    limit = sys.getrecursionlimit()
    yield
    sys.setrecursionlimit(limit)


@pytest.fixture(autouse=True)
def connections_of_tasks_closed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """
    No test leaves a connection of a task open.

    In Airflow the end of a task's process closes them. Here an exception that is a parameter of a test keeps
    the hooks of its traceback for as long as all tests run.
    """
    wires: WeakSet[RequestsWire] = WeakSet()
    construct = RequestsWire.__init__

    def noted(wire: RequestsWire, certificates: str | None) -> None:
        construct(wire, certificates)
        wires.add(wire)

    monkeypatch.setattr(RequestsWire, "__init__", noted)
    yield
    for wire in list(wires):
        wire.close()


@pytest.fixture(scope="session")
def emulator_server() -> Iterator[EmulatorServer]:
    """One server for the session; tests take ``emulator``, which is as new for each."""
    with EmulatorServer(clock=ManualClock()) as server:
        yield server


@pytest.fixture
def emulator(emulator_server: EmulatorServer) -> Iterator[EmulatorServer]:
    """A workflow service without inboxes, tokens or faults, whose clock stands still."""
    emulator_server.reset()
    yield emulator_server
    emulator_server.reset()


@pytest.fixture
def clock(emulator: EmulatorServer) -> ManualClock:
    """The clock of ``emulator``; it moves when a test says ``clock.advance(seconds)``."""
    assert isinstance(emulator.store.clock, ManualClock)
    return emulator.store.clock


@pytest.fixture(autouse=True)
def _no_sleep(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A quick test fails if the package sleeps in it by the clock of the machine."""
    if any(request.node.get_closest_marker(name) for name in ("slow", "program")):
        return

    def sleep(seconds: float) -> None:
        if seconds > 0:
            pytest.fail(f"This test sleeps for {seconds:g} s. Let it use the fixture `fake_clock`.")

    async def async_sleep(seconds: float) -> None:
        sleep(seconds)
        await asyncio.sleep(0)

    monkeypatch.setattr(package_clock, "sleep", sleep)
    monkeypatch.setattr(package_clock, "async_sleep", async_sleep)


@pytest.fixture
def fake_clock() -> Iterator[FakeClock]:
    """The clock of the package, which moves when somebody sleeps, or when a test advances it."""
    with package_clock.use(FakeClock()) as fake:
        yield fake


@pytest.fixture
def pauses(fake_clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> FakeClock:
    """The clock of the package, by which Airflow itself pauses between two pokes of a sensor as well."""
    monkeypatch.setattr("airflow.sdk.bases.sensor.time", fake_clock)
    return fake_clock


@pytest.fixture
def connected_emulator(emulator: EmulatorServer, monkeypatch: pytest.MonkeyPatch) -> EmulatorServer:
    """``emulator``, and the connection ``workflow_default`` to it, without pauses between retries."""
    monkeypatch.setenv("AIRFLOW_CONN_WORKFLOW_DEFAULT", emulator.connection_json())
    monkeypatch.setattr("airflow_provider_workflow.client.sync_client.BACKOFF_SECONDS", 0.0)
    forget()
    return emulator


@pytest.fixture
def supervisor(monkeypatch: pytest.MonkeyPatch) -> Supervisor:
    """What starts DAG runs; it knows the DAG ``handle``."""
    fake = Supervisor()
    monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", fake, raising=False)
    return fake


@pytest.fixture
def release(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, int], None]:
    """Pretend another version of Airflow."""

    def pretend(major: int, minor: int) -> None:
        monkeypatch.setattr("airflow_provider_workflow.airflow_internals.__version__", f"{major}.{minor}.0")

    return pretend


@pytest.fixture
def bench(connected_emulator: EmulatorServer, supervisor: Supervisor) -> Workbench:
    """The inbox ``orders``, and all that starts runs of its messages."""
    return Workbench(connected_emulator, supervisor)
