"""
Whether runs of the target DAGs can be started: what is checked before anything is leased.

A message has about five deliveries, and none of them is to be spent on a broken target. No check of Airflow's
is complete, so the first lease of every process is the *pilot*: one message, whose run shows it. Where an
earlier try, or the DAG run before, found the target broken, the check is thorough, and the pilot is leased
for an hour: a target that stays broken for hours costs a waiting message one delivery per hour.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from airflow_provider_workflow.dispatch.capacity import PILOT_SECONDS
from airflow_provider_workflow.dispatch.rejections import TargetError
from airflow_provider_workflow.dispatch.runs import Runs, Start

log = logging.getLogger(__name__)

STORE_KEY = "workflow_target_broken"


class Before(Enum):
    """What is known of the target from before this process."""

    WELL = "nothing says that it was broken"
    BROKEN = "an earlier try of the task, or the DAG run before, found it broken or failed"
    UNKNOWN = "runs of the listener failed some time, or nothing is remembered"


@dataclass
class TargetHistory:
    """
    Remembers between the tries of a task that its target DAG was broken.

    The task state store of Airflow 3.3 keeps it. Before that nothing survives a try, and every further try
    counts as one that follows a broken target.

    :param context: of the running task; empty on the command line, which remembers nothing.
    """

    context: Mapping[str, Any] = field(default_factory=dict)

    def before(self) -> Before:
        """What is known of the target from before this process."""
        ti = self.context.get("ti")
        if ti is None:
            return Before.UNKNOWN
        is_retry = int(ti.try_number) > 1
        try:
            if is_retry or self._is_remembered():
                return self._try_before()
            return self._run_before(ti)
        except Exception as error:
            # Where Airflow does not answer, the check that follows says so.
            log.debug("Whether the target was broken before is not known: %s", type(error).__name__)
            return Before.BROKEN if is_retry else Before.UNKNOWN

    def _is_remembered(self) -> bool:
        # In the first try as well: with silent_fail a sensor goes on after it, perhaps in another process.
        return (store := self._store()) is not None and store.get(STORE_KEY) is not None

    def _try_before(self) -> Before:
        return Before.WELL if self._store() is not None and not self._is_remembered() else Before.BROKEN

    def _run_before(self, ti: Any) -> Before:
        if getattr(self.context.get("dag_run"), "logical_date", None) is None:
            # Runs that an asset or the API starts are in no order that a task could ask for.
            failed = ti.get_dr_count(dag_id=ti.dag_id, states=["failed"])
            return Before.UNKNOWN if failed else Before.WELL
        run = ti.get_previous_dagrun() if hasattr(ti, "get_previous_dagrun") else None
        # Whatever failed it: a longer lease of one message does no harm.
        failed = run is not None and str(getattr(run.state, "value", run.state)) == "failed"
        return Before.BROKEN if failed else Before.WELL

    def remember(self) -> None:
        """The target is broken."""
        if (store := self._store()) is not None:
            # Airflow may be what is broken.
            with contextlib.suppress(Exception):
                store.set(STORE_KEY, "1")

    def forget(self) -> None:
        """A run was started."""
        if (store := self._store()) is not None:
            with contextlib.suppress(Exception):
                store.delete(STORE_KEY)

    def _store(self) -> Any:
        try:
            return self.context["task_state_store"]
        except KeyError:
            return None


@dataclass
class TargetCheck:
    """
    Checks each target DAG once in a process, and decides how much may be leased for them.

    :param runs: where runs are started.
    :param dag_ids: the target DAGs.
    :param history: what earlier tries found.
    """

    runs: Runs
    dag_ids: Sequence[str]
    history: TargetHistory = field(default_factory=TargetHistory)
    _checked: bool = False
    _before: Before = Before.WELL
    _take_runs: set[str] = field(default_factory=set)
    _have_started: set[str] = field(default_factory=set)

    def check(self) -> None:
        """
        Check the targets, where this process has not done so.

        :raises TargetError: runs of one of them cannot be started; the next try knows of it.
        """
        if self._checked:
            return
        if self._before is not Before.BROKEN:
            self._before = self.history.before()
        try:
            for dag_id in self.dag_ids:
                self.runs.check_target(dag_id, thorough=self._before is Before.BROKEN)
        except TargetError:
            self.history.remember()
            raise
        self._checked = True

    def broke(self) -> None:
        """A lease showed that a target is broken: what follows, in this process too, is careful."""
        self._checked, self._before = False, Before.BROKEN
        self._take_runs.clear()
        self._have_started.clear()
        self.history.remember()

    def next_lease(self, most: int, seconds: int) -> tuple[int, int]:
        """
        How many messages the next lease may have, and for how many seconds.

        :param most: messages that there is capacity for.
        :param seconds: length of an ordinary lease.
        """
        if self._is_pilot():
            long = seconds if self._before is Before.WELL else max(seconds, PILOT_SECONDS)
            return min(most, 1), long
        return most, seconds

    def _is_pilot(self) -> bool:
        """Whether the next lease is to be one message. Of several targets each may be the broken one."""
        if self._before is Before.BROKEN:
            return not self._take_runs.issuperset(self.dag_ids)
        return not self._take_runs

    @property
    def is_proven(self) -> bool:
        """Whether a run was started, or found, so that leases need no pilot."""
        return bool(self._take_runs)

    def takes(self, dag_id: str, outcome: Start) -> None:
        """A run of a target was started, or found."""
        if outcome is Start.STARTED:
            self._have_started.add(dag_id)
        elif self._before is Before.BROKEN:
            # Airflow finds a run before it looks at params, so the target may be as broken as before.
            return
        self._take_runs.add(dag_id)
        if self._before is Before.BROKEN and self._take_runs.issuperset(self.dag_ids):
            self._before = Before.WELL
            self.history.forget()

    def has_started(self, dag_id: str) -> bool:
        """Whether this process has started a run of a target, so that a rejection is of one message."""
        return dag_id in self._have_started
