"""Plays histories: replaces everything outside that the package uses by the simulated world."""

from __future__ import annotations

import gc
import logging
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from airflow_provider_workflow import clock, observers, pytest_plugin
from airflow_provider_workflow.dispatch import cpu_limit, payload_store, quarantine, routing, runs
from airflow_provider_workflow.emulator.rules import inboxes, queues
from airflow_provider_workflow.operators import base
from tests.simulation import invariants
from tests.simulation.plan import Plan, choose
from tests.simulation.tasks import check
from tests.simulation.world import World

PACKAGE = "airflow_provider_workflow"
HISTORIES_OF_GARBAGE = 200
"""The number of histories after which the garbage collection frees their worlds."""


class HistoryLog(logging.Handler):
    """Adds the log lines of the package to the history."""

    def __init__(self, world: World) -> None:
        super().__init__(logging.INFO)
        self.world = world

    def emit(self, record: logging.LogRecord) -> None:
        self.world.note(self.world.process, f"log {record.levelname}", record.getMessage())


_now = SimpleNamespace(world=None, played=0)
"""The world of the current history, and the number of histories that were played."""
_UUIDS = SimpleNamespace(uuid4=lambda: _now.world.new_id(), UUID=uuid.UUID)
REPLACED: tuple[tuple[Any, str, Any], ...] = (
    (runs, "trigger_dag_run", lambda *args: _now.world.airflow.trigger_dag_run(*args)),
    (runs, "stored_dag_run", lambda *args: _now.world.airflow.stored_dag_run(*args)),
    (payload_store.PayloadStore, "configured", lambda: _now.world.bucket),
    (quarantine, "report_quarantined", lambda *_, **__: []),
    (quarantine, "quarantine_check_seconds", lambda: 300.0),
    (observers, "notify", lambda *_, **__: None),
    (base, "check_schema", lambda *_: check),  # it compiles a schema for each sensor
    (cpu_limit, "_is_interruptible", lambda: False),
    (routing, "matcher", cache(routing.matcher)),
    (queues, "uuid", _UUIDS),
    (inboxes, "uuid", _UUIDS),
)
"""Module, name, and what stands there while histories are played."""


@contextmanager
def staged() -> Iterator[None]:
    """Within this context histories can be played."""
    with ExitStack() as stack:
        # Each world leaves garbage with cycles. The modules of Airflow need not be searched for garbage.
        gc.freeze()
        gc.disable()
        stack.callback(gc.enable)
        stack.callback(gc.unfreeze)
        stack.callback(logging.disable, logging.root.manager.disable)
        logging.disable(logging.CRITICAL)
        for module, name, stand_in in REPLACED:
            stack.enter_context(patch.object(module, name, stand_in))
        yield


def play(seed: int, lines: list[str] | None = None) -> str:
    """
    Play the history of a seed, within :func:`staged`.

    :param lines: receives the history.
    :return: the rule that does not hold; empty if all hold.
    """
    return play_plan(choose(seed), lines)


def play_plan(
    plan: Plan, lines: list[str] | None = None, look: Callable[[World], object] = lambda world: None
) -> str:
    """
    Play the history of a plan, within :func:`staged`.

    :param look: called with the world at the end of the history.
    :return: as :func:`play`.
    """
    world = _now.world = World(plan, lines)
    pytest_plugin.reset()
    with clock.use(world.clock), _logging(world):
        try:
            world.play()
        finally:
            world.end()
    _now.played += 1
    if _now.played % HISTORIES_OF_GARBAGE == 0:
        gc.collect()
    rule = invariants.check(world)
    look(world)
    world.forget()
    return rule


@contextmanager
def _logging(world: World) -> Iterator[None]:
    if world.lines is None:
        yield
        return
    logging.disable(logging.NOTSET)
    logger, handler = logging.getLogger(PACKAGE), HistoryLog(world)
    level, propagates = logger.level, logger.propagate
    logger.setLevel(logging.INFO)
    logger.addHandler(handler)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        logger.propagate = propagates
        logging.disable(logging.CRITICAL)
