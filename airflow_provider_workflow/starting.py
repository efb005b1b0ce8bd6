"""One message becomes one DAG run, whose id follows from the message's, so that a message finds its run."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_workflow import metrics
from airflow_provider_workflow.client import types
from airflow_provider_workflow.leases import PRECIOUS_LEASE, for_people, lease_count
from airflow_provider_workflow.leasing import note_refusal
from airflow_provider_workflow.routing import Routes, UnroutableError
from airflow_provider_workflow.run_faults import RunRefused, ServerFault, TargetError, Unholdable
from airflow_provider_workflow.runs import Runs, Start, run_id_of
from airflow_provider_workflow.tally import Tally

if TYPE_CHECKING:
    from airflow_provider_workflow.hooks.workflow import WorkflowHook

log = logging.getLogger(__name__)

MOST_REFUSALS = 10
"""From so many on, and where none was taken, it is the target that refuses all: going on would empty the
inbox into quarantine."""


@dataclass
class Starter:
    """
    Starts the runs of messages, one after the other.

    :param hook: of the connection; nothing is asked of the service.
    :param inbox: how the inbox is named in the log.
    :param inbox_id: what a run is told of it.
    :param routes: which DAG a message is for.
    :param runs: where runs are started.
    :param tally: counts what became of messages.
    """

    hook: WorkflowHook
    inbox: str
    inbox_id: str
    routes: Routes
    runs: Runs
    tally: Tally
    _takes_some: bool = False
    _refusals: int = 0
    _server_faults: int = 0

    def start(self, message: types.LeasedMessage) -> bool:
        """
        Start the run of a message, or find it; whether the message may be acknowledged.

        :raises TargetError: no run can be started now.
        """
        message_id = message["id"]
        if (count := lease_count(message)) >= PRECIOUS_LEASE:
            log.warning("Inbox %s: message %s is on its lease number %d", self.inbox, message_id, count)
        content = for_people(message)
        try:
            run_id = run_id_of(message_id)
            dag_id = self._earlier_target(message, run_id) or self.routes.target(content)
            if dag_id is None:
                log.debug("Inbox %s: message %s matches nothing; left to its lease", self.inbox, message_id)
                return False
            outcome = self.runs.start(dag_id, run_id, {"inbox_id": self.inbox_id, "message": content})
        except (RunRefused, UnroutableError) as error:
            self._refuse(message, error)
            return False
        self._takes_some = True
        self._server_faults = 0
        self.tally.count(outcome.value, message_id)
        metric = metrics.STARTED if outcome is Start.STARTED else metrics.EXISTING
        metrics.count(metric, 1, inbox=self.inbox, conn_id=self.hook.workflow_conn_id)
        return True

    def _earlier_target(self, message: types.LeasedMessage, run_id: str) -> str | None:
        """
        The DAG that an earlier delivery of a message was routed to, if its run exists.

        An expression may read what changes between deliveries, and must not choose a second DAG then.
        """
        if lease_count(message) < 2 or len(self.routes.dag_ids) < 2:
            return None
        return next((d for d in self.routes.dag_ids if self.runs.exists(d, run_id)), None)

    def _refuse(self, message: types.LeasedMessage, error: Exception) -> None:
        if isinstance(error, RunRefused) and not isinstance(error, Unholdable):
            self._note_answer(error)
        self.tally.refuse(message["id"], str(error))
        note_refusal(self.hook, self.inbox, message, error)

    def _note_answer(self, error: RunRefused) -> None:
        """
        Count what Airflow refused.

        :raises TargetError: it is not of the messages: too many of them met the same.
        """
        self._server_faults = self._server_faults + 1 if isinstance(error, ServerFault) else 0
        if self._server_faults >= 2:
            raise TargetError(f"Airflow failed twice in a row to start a run: {error}. No message is lost.")
        self._refusals += 1
        if self._refusals >= MOST_REFUSALS and not self._takes_some:
            raise TargetError(
                f"Airflow refused the first {self._refusals} runs and took none. The last of them: {error}."
                " Correct the target DAG (its params, or what its run ids may be). No message is lost."
            )
