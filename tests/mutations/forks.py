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
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
from _pytest.main import pytest_runtestloop as run_loop
from coverage import Coverage

from tests.mutations.fault import Fault, functions
from tests.mutations.seeded import PACKAGE, seeded

LONGEST_MEASUREMENT_SECONDS = 3_600.0
LONGEST_RUN_SECONDS = 600.0
LARGEST_RUN_BYTES = 4_000_000_000
"""Memory that the tests of one fault can allocate: with some faults, they allocate without end."""

Executed = dict[str, set[str]]
"""For each function of the package the ids of the tests that execute it."""


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
    :param file: where to write the outcomes, as JSON.
    :param first_only: whether the tests of a fault end at the first failure.
    """

    def __init__(self, faults: Sequence[Fault], file: Path, *, first_only: bool) -> None:
        self._faults = faults
        self._file = file
        self._first_only = first_only

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run the tests of all faults, and write the outcomes."""
        if session.testsfailed:
            raise session.Interrupted("The tests cannot be collected.")
        items = {item.nodeid: item for item in session.items}
        executed = self._measure(session)
        print(f"{len(items)} tests execute {len(executed)} functions", file=sys.stderr)
        session.config.option.maxfail = 1 if self._first_only else 0
        outcomes = []
        for fault in self._faults:
            tests = [items[test] for test in sorted(executed[fault.place(PACKAGE).function])]
            outcome = self._try(session, fault, tests)
            word = "noticed" if outcome.is_noticed else "NOT NOTICED"
            print(
                f"{word}: {fault.name} ({len(outcome.failed)} of {len(tests)})", file=sys.stderr, flush=True
            )
            outcomes.append(outcome)
        self._file.write_text(json.dumps([asdict(outcome) for outcome in outcomes]))
        return True

    def _measure(self, session: pytest.Session) -> Executed:
        """Which test executes which function; tests that fail without a fault are left out."""

        def run(answer: Path) -> None:
            coverage = Coverage(data_file=None, source=[str(PACKAGE)], config_file=False)
            contexts = _Contexts(coverage)
            session.config.pluginmanager.register(contexts)
            coverage.start()
            failed = _run(session, session.items)
            coverage.stop()
            answer.write_text(json.dumps([failed, _executed(coverage)]))

        answer = self._fork(run, LONGEST_MEASUREMENT_SECONDS)
        if answer is None:
            raise session.Interrupted("The tests did not end without a fault.")
        failed, executed = answer
        for test in failed:
            print(f"fails without a fault: {test}", file=sys.stderr)
        return {function: set(tests) - set(failed) for function, tests in executed.items()}

    def _try(self, session: pytest.Session, fault: Fault, tests: list[pytest.Item]) -> Outcome:
        def run(answer: Path) -> None:
            with seeded(fault):
                answer.write_text(json.dumps(_run(session, tests)))

        failed = self._fork(run, LONGEST_RUN_SECONDS) if tests else []
        room = fault.place(PACKAGE).file.relative_to(PACKAGE).parts[0].removesuffix(".py")
        return Outcome(fault.name, room, len(tests), failed or [], failed is None or bool(failed))

    def _fork(self, run: Callable[[Path], None], seconds: float) -> Any:
        """What the function writes in a fork of this process, decoded; None if it did not end."""
        answer = self._file.with_suffix(".answer")
        answer.unlink(missing_ok=True)
        process = os.fork()
        if process == 0:
            try:
                os.setsid()
                run(answer)
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(0)
        ends_at = time.monotonic() + seconds
        while os.waitpid(process, os.WNOHANG)[0] == 0:
            if time.monotonic() > ends_at or psutil.Process(process).memory_info().rss > LARGEST_RUN_BYTES:
                os.killpg(process, signal.SIGKILL)
                os.waitpid(process, 0)
                break
            time.sleep(0.02)
        return json.loads(answer.read_text()) if answer.exists() else None


class _Contexts:
    """A plugin of pytest: what is executed from now on is executed by this test."""

    def __init__(self, coverage: Coverage) -> None:
        self._coverage = coverage

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        self._coverage.switch_context(item.nodeid)
        return (yield)


def _run(session: pytest.Session, tests: Sequence[pytest.Item]) -> list[str]:
    """Run tests; return the ids of those that failed."""
    failed: dict[str, None] = {}

    class Failures:
        @staticmethod
        def pytest_runtest_logreport(report: pytest.TestReport) -> None:
            if report.failed:
                failed[report.nodeid] = None

    session.config.pluginmanager.register(Failures())
    session.items = list(tests)
    session.testscollected = len(tests)
    with suppress(session.Failed):
        run_loop(session)
    return list(failed)


def _executed(coverage: Coverage) -> dict[str, list[str]]:
    data = coverage.get_data()
    executed = {}
    for place in functions(PACKAGE):
        of_file = data.contexts_by_lineno(str(place.file))
        lines = range(place.node.body[0].lineno, (place.node.end_lineno or 0) + 1)
        executed[place.function] = sorted({test for line in lines for test in of_file.get(line, ()) if test})
    return executed
