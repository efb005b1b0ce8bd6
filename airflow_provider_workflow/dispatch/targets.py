"""
What is known of the target DAGs before anything is leased: whether they take runs, and how many more.

Nothing is leased only to be released. A message has about five deliveries, and a broken target must not use
them up. No check that Airflow offers is complete, so the first lease of every process is the *pilot*: one
message, whose run shows it. After an earlier try, or the DAG run before, found the target broken, the check
is thorough and the pilot is leased for an hour: a target that stays broken for hours costs a waiting message
one delivery per hour.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

from airflow_provider_workflow import clock

if TYPE_CHECKING:
    from airflow_provider_workflow.dispatch.lease import HeldLease
    from airflow_provider_workflow.dispatch.runs import Runs, Start

log = logging.getLogger(__name__)

LEASE_SECONDS = (60, 3600)
"""No run is started in the last 30 s of a lease, so a shorter lease would leave no time."""
DEAD_LETTER_AFTER = (1, 4)
"""The service delivers a message about five times: after the fourth delivery there is about one left."""
PILOT_SECONDS = 3600
"""Length of the pilot lease after an earlier try found the target DAG broken."""
MOST_MESSAGES = 10_000
CAPACITY_CHECK_SECONDS = 2.0
STORE_KEY = "workflow_target_broken"


@dataclass(frozen=True)
class Limits:
    """
    How much is leased at a time.

    :param lease_limit: messages per lease, 1 to 100.
    :param lease_seconds: length of a lease, 60 to 3600 s.
    :param max_messages: messages in all, 1 or more; None for 10,000.
    :param max_unfinished_runs: runs that each target may have queued and running; None for any number.
    """

    lease_limit: int = 100
    lease_seconds: int = 300
    max_messages: int | None = None
    max_unfinished_runs: int | None = None

    @property
    def most_messages(self) -> int:
        """Messages that one task leases in all."""
        return min(MOST_MESSAGES, self.max_messages or MOST_MESSAGES)

    @property
    def first_lease(self) -> int:
        """Messages of the first lease."""
        return min(self.lease_limit, self.most_messages)


class Before(Enum):
    """What was known of the target when this process started."""

    WORKING = "nothing shows that it was broken"
    BROKEN = "an earlier try of the task, or the DAG run before, found it broken or failed"
    UNKNOWN = "some run of the listener failed, or nothing is stored"


@dataclass
class TargetHistory:
    """
    Stores for the next try of a task that its target DAG was broken.

    In the task state store of Airflow 3.3. Without it, every further try is treated as one that follows a
    broken target.

    :param context: of the running task; empty on the command line, where nothing is stored.
    """

    context: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_retry(self) -> bool:
        """Whether this is not the first try of the task."""
        ti = self.context.get("ti")
        return ti is not None and int(ti.try_number) > 1

    def before(self) -> Before:
        """What is known of the target when this process starts."""
        ti = self.context.get("ti")
        if ti is None:
            return Before.UNKNOWN
        is_retry = self.is_retry
        try:
            if is_retry or self._is_remembered():
                return self._try_before()
            return self._run_before(ti)
        except Exception as error:
            # If Airflow does not answer, the check that follows raises.
            log.debug("Whether the target was broken before is not known: %s", type(error).__name__)
            return Before.BROKEN if is_retry else Before.UNKNOWN

    def _is_remembered(self) -> bool:
        # In the first try as well: with silent_fail a sensor goes on after it, perhaps in another process.
        return (store := self._store()) is not None and store.get(STORE_KEY) is not None

    def _try_before(self) -> Before:
        return Before.WORKING if self._store() is not None and not self._is_remembered() else Before.BROKEN

    def _run_before(self, ti: Any) -> Before:
        if getattr(self.context.get("dag_run"), "logical_date", None) is None:
            # A run that an asset or the API started has no previous run that a task could query.
            failed = ti.get_dr_count(dag_id=ti.dag_id, states=["failed"])
            return Before.UNKNOWN if failed else Before.WORKING
        run = ti.get_previous_dagrun() if hasattr(ti, "get_previous_dagrun") else None
        # Whatever made it fail: a longer lease of one message does no harm.
        failed = run is not None and str(getattr(run.state, "value", run.state)) == "failed"
        return Before.BROKEN if failed else Before.WORKING

    def remember(self) -> None:
        """Store that the target is broken."""
        if (store := self._store()) is not None:
            # Airflow itself may be broken.
            with contextlib.suppress(Exception):
                store.set(STORE_KEY, "1")

    def forget(self) -> None:
        """Store that the target accepts runs."""
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
    :param history: the results of earlier tries.
    :param dead_letter_dag_id: the dead-letter DAG, which is checked too.
    """

    runs: Runs
    dag_ids: Sequence[str]
    history: TargetHistory = field(default_factory=TargetHistory)
    dead_letter_dag_id: str | None = None
    _checked: bool = False
    _before: Before = Before.WORKING
    _take_runs: set[str] = field(default_factory=set)
    _have_started: set[str] = field(default_factory=set)

    def check(self) -> None:
        """
        Check the targets, once in a process.

        :raises TargetError: runs of one of them cannot be started; this is stored for the next try.
        """
        from airflow_provider_workflow.dispatch.rejections import TargetError

        if self._checked:
            return
        if self._before is not Before.BROKEN:
            self._before = self.history.before()
        try:
            for dag_id in (*self.dag_ids, *filter(None, [self.dead_letter_dag_id])):
                self.runs.check_target(dag_id, thorough=self._before is Before.BROKEN)
        except TargetError:
            self.history.remember()
            raise
        self._checked = True

    def broke(self) -> None:
        """A rejection showed that a target is broken: check again, and lease one message first."""
        self._checked, self._before = False, Before.BROKEN
        self._take_runs.clear()
        self._have_started.clear()
        self.history.remember()

    def next_lease(self, most: int, seconds: int) -> tuple[int, int]:
        """
        The number of messages of the next lease, and its length in seconds.

        :param most: messages that there is capacity for.
        :param seconds: length of an ordinary lease, 60 to 3600 s.
        """
        if self._is_pilot():
            long = seconds if self._before is Before.WORKING else max(seconds, PILOT_SECONDS)
            return min(most, 1), long
        return most, seconds

    def _is_pilot(self) -> bool:
        """Whether the next lease is the pilot. Of several targets any one may be the broken one."""
        if self._before is Before.BROKEN:
            return not self._take_runs.issuperset(self.dag_ids)
        return not self._take_runs

    @property
    def is_proven(self) -> bool:
        """Whether a run was started, or found, so that leases need no pilot."""
        return bool(self._take_runs)

    @property
    def was_broken(self) -> bool:
        """Whether an earlier try, or this process, found a target broken that has started no run since."""
        return self._before is Before.BROKEN

    def takes(self, dag_id: str, outcome: Start) -> None:
        """A run of a target was started, or found."""
        if outcome.value == "started":
            self._have_started.add(dag_id)
        elif self._before is Before.BROKEN:
            # Airflow finds an existing run before it checks params, so the target may still be broken.
            return
        self._take_runs.add(dag_id)
        if self._before is Before.BROKEN and self._take_runs.issuperset(self.dag_ids):
            self._before = Before.WORKING
            self.history.forget()

    def has_started(self, dag_id: str) -> bool:
        """Whether this process has started a run of the target, so that a rejection is about one message."""
        return dag_id in self._have_started


@dataclass
class Capacity:
    """
    How many more runs the target DAGs may have.

    :param limits: the limits of the task.
    :param runs: counts the unfinished runs.
    :param dag_ids: the targets; the one with the most unfinished runs decides.
    """

    limits: Limits
    runs: Runs
    dag_ids: Iterable[str]
    _left: int = 0

    def left(self, handled: int) -> int:
        """
        How many messages may be leased now.

        :param handled: messages that were started, found or rejected so far.
        """
        left = self.limits.most_messages - handled
        if left > 0 and self.limits.max_unfinished_runs is not None:
            self._left = self._ask()
            left = min(left, self._left)
        return max(0, left)

    def wait_within(self, lease: HeldLease) -> bool:
        """Wait until a run may be started, as long as the lease allows; at once without a limit on runs."""
        while lease.seconds_left() > 0:
            if self.limits.max_unfinished_runs is None or self._left > 0:
                return True
            self._left = self._ask()
            if self._left <= 0:
                clock.sleep(CAPACITY_CHECK_SECONDS)
        return False

    def used(self) -> None:
        """A run was started."""
        self._left -= 1

    def _ask(self) -> int:
        most = self.limits.max_unfinished_runs or 0
        return min(most - self.runs.unfinished(dag_id) for dag_id in self.dag_ids)
