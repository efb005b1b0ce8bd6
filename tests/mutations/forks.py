"""Runs the tests of one fault after the other, each in a fork of the process that has collected all tests."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest
from _pytest.main import pytest_runtestloop as run_loop
from coverage import Coverage

from tests.mutations.fault import Fault, functions
from tests.mutations.seeded import PACKAGE, seeded

MAX_MEASUREMENT_SECONDS = 3_600.0
MAX_TEST_SECONDS = 300.0
MAX_RUN_BYTES = 4_000_000_000
"""Memory that the tests of one fault can allocate: with some faults, they allocate without end."""

Executed = dict[str, list[str]]
"""For each function of the package the ids of the tests that execute it, the quickest first."""


@dataclass(frozen=True)
class Outcome:
    """
    What the tests said of a fault.

    :param name: of the fault.
    :param room: directory or module of the package with the function.
    :param ran: number of tests that execute the function.
    :param failed: ids of those that failed.
    :param is_noticed: whether one failed, or they did not end.
    """

    name: str
    room: str
    ran: int
    failed: list[str]
    is_noticed: bool


class Forks:
    """
    A plugin of pytest that runs all collected tests without a fault, then those of each fault.

    :param faults: the faults.
    :param folder: an empty directory, for what the forks answer.
    :param workers: number of forks that run at the same time.
    :param first_only: whether the tests of a fault end at the first failure.
    """

    def __init__(self, faults: Sequence[Fault], folder: Path, *, workers: int, first_only: bool) -> None:
        self._faults = faults
        self._folder = folder
        self._workers = workers
        self._first_only = first_only
        self.outcomes: list[Outcome] = []
        self.left_out: list[str] = []
        """Tests that fail without a fault."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run the tests of all faults."""
        if session.testsfailed:
            raise session.Interrupted("The tests cannot be collected.")
        items = {item.nodeid: item for item in session.items}
        tests_by_function = self._measure(session)
        print(f"{len(items)} tests execute {len(tests_by_function)} functions", file=sys.stderr)
        session.config.option.maxfail = 1 if self._first_only else 0
        forks: dict[_Fork, tuple[Fault, int]] = {}
        try:
            for number, fault in enumerate(self._faults):
                while len(forks) == self._workers:
                    self._collect(forks)
                tests = [items[test] for test in tests_by_function[fault.place(PACKAGE).function]]
                answer = self._folder / f"{number}.json"
                forks[_Fork(partial(_run_seeded, session, fault, tests), answer)] = fault, len(tests)
            while forks:
                self._collect(forks)
        finally:
            for fork in forks:
                fork.stop()
        return True

    def _measure(self, session: pytest.Session) -> Executed:
        """Which test executes which function; tests that fail without a fault are left out."""

        def run() -> Any:
            coverage = Coverage(data_file=None, source=[str(PACKAGE)], config_file=False)
            coverage.start()
            observer = _run(session, session.items, coverage)
            coverage.stop()
            items = _executed(coverage).items()
            return list(observer.failed), {
                name: sorted(tests, key=observer.seconds.get) for name, tests in items
            }

        fork = _Fork(run, self._folder / "executed.json", MAX_MEASUREMENT_SECONDS)
        while not fork.has_ended():
            time.sleep(0.02)
        if (answer := fork.answer()) is None:
            raise session.Interrupted("The tests did not end without a fault.")
        failed, tests_by_function = answer
        self.left_out = failed
        for test in failed:
            print(f"fails without a fault: {test}", file=sys.stderr)
        return {
            name: [test for test in tests if test not in failed] for name, tests in tests_by_function.items()
        }

    def _collect(self, forks: dict[_Fork, tuple[Fault, int]]) -> None:
        """Take the outcomes of forks that have ended."""
        time.sleep(0.02)
        for fork in [fork for fork in forks if fork.has_ended()]:
            fault, test_count = forks.pop(fork)
            failed = fork.answer()
            room = fault.place(PACKAGE).file.relative_to(PACKAGE).parts[0].removesuffix(".py")
            outcome = Outcome(fault.name, room, test_count, failed or [], failed is None or bool(failed))
            word = "noticed" if outcome.is_noticed else "NOT NOTICED"
            print(
                f"{word}: {fault.name} ({len(outcome.failed)} of {test_count})", file=sys.stderr, flush=True
            )
            self.outcomes.append(outcome)


class _Fork:
    """
    A fork of this process that runs a function.

    :param run: the function; what it returns can be written as JSON.
    :param answer: the file for it.
    :param seconds: after so long, the fork is killed.
    """

    def __init__(self, run: Callable[[], Any], answer: Path, seconds: float = MAX_TEST_SECONDS) -> None:
        self._answer = answer
        self._ends_at = time.monotonic() + seconds
        self._is_stopped = False
        self._process = os.fork()
        if self._process == 0:
            try:
                os.setsid()
                answer.write_text(json.dumps(run()))
                os._exit(0)
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(1)

    def has_ended(self) -> bool:
        """Whether the fork has ended; it is stopped here if it takes too long or too much memory."""
        if os.waitpid(self._process, os.WNOHANG)[0]:
            return True
        used_bytes = psutil.Process(self._process).memory_info().rss
        if time.monotonic() < self._ends_at and used_bytes < MAX_RUN_BYTES:
            return False
        self.stop()
        return True

    def stop(self) -> None:
        """Kill the fork, with the processes that it started."""
        os.killpg(self._process, signal.SIGKILL)
        os.waitpid(self._process, 0)
        self._is_stopped = True

    def answer(self) -> Any:
        """
        What the function returned; None if the fork was stopped here.

        :raises RuntimeError: the function raised an exception, or something else ended the fork.
        """
        if self._is_stopped:
            return None
        if not self._answer.exists():
            raise RuntimeError("A fork ended without an answer; its error stands above.")
        return json.loads(self._answer.read_text())


class _Observer:
    """
    A plugin of pytest: which tests failed, and how long each took.

    :param coverage: is told what is executed by which test.
    """

    def __init__(self, coverage: Coverage | None) -> None:
        self._coverage = coverage
        self.failed: dict[str, None] = {}
        self.seconds: dict[str, float] = {}

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        if self._coverage is not None:
            self._coverage.switch_context(item.nodeid)
        began_at = time.monotonic()
        try:
            return (yield)
        finally:
            self.seconds[item.nodeid] = time.monotonic() - began_at

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed[report.nodeid] = None


def _run_seeded(session: pytest.Session, fault: Fault, tests: Sequence[pytest.Item]) -> list[str]:
    """The ids of the tests that fail with a fault."""
    with seeded(fault):
        return list(_run(session, tests).failed)


def _run(
    session: pytest.Session, tests: Sequence[pytest.Item], coverage: Coverage | None = None
) -> _Observer:
    observer = _Observer(coverage)
    session.config.pluginmanager.register(observer)
    session.items = list(tests)
    session.testscollected = len(tests)
    with suppress(session.Failed):
        run_loop(session)
    return observer


def _executed(coverage: Coverage) -> dict[str, list[str]]:
    data = coverage.get_data()
    tests_by_function = {}
    for place in functions(PACKAGE):
        of_file = data.contexts_by_lineno(str(place.file))
        lines = range(place.node.body[0].lineno, (place.node.end_lineno or 0) + 1)
        tests_by_function[place.function] = list(
            {test for line in lines for test in of_file.get(line, ()) if test}
        )
    return tests_by_function
