"""What earlier tries of a task found out about their target DAG, for batches."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

log = logging.getLogger(__name__)

PILOT_SECONDS = 3600
"""Length of the pilot lease after an earlier try failed."""
STORE_KEY = "workflow_target_broken"


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
