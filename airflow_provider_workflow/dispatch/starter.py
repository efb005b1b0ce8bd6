"""One message becomes one DAG run, whose id follows from the message's, so that a message finds its run."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_provider_workflow import metrics
from airflow_provider_workflow.client import types
from airflow_provider_workflow.client.wire import plain
from airflow_provider_workflow.dispatch.lease import PRECIOUS_LEASE, for_people, lease_count
from airflow_provider_workflow.dispatch.payloads import storable
from airflow_provider_workflow.dispatch.rejections import RunRefused, ServerFault, TargetError, Unholdable
from airflow_provider_workflow.dispatch.results import Tally, note_refusal
from airflow_provider_workflow.dispatch.routing import Routes, UnroutableError
from airflow_provider_workflow.dispatch.runs import Runs, Start, former_run_id_of, run_id_of
from airflow_provider_workflow.dispatch.targets import TargetCheck
from airflow_provider_workflow.version_compat import airflow_release

if TYPE_CHECKING:
    from airflow_provider_workflow.hooks.workflow import WorkflowHook

log = logging.getLogger(__name__)

MOST_REJECTED_IN_A_ROW = 20
"""Messages. After so many the target has broken meanwhile: going on would spend a delivery of each
message."""
MOST_FAILED_IN_A_ROW = 2
"""The same for answers of 5xx on Airflow 3.3 and later, where a rejected message is answered with 4xx."""

LONGEST_NOTE = 1000
"""Characters. PostgreSQL rejects the run of a longer one; escaped, a character of an id takes up to ten."""


@dataclass
class Starter:
    """
    Starts the runs of messages, one after the other.

    :param hook: of the connection; it sends nothing here.
    :param inbox: how the inbox is named in the log.
    :param routes: which DAG a message is for.
    :param runs: where runs are started.
    :param tally: counts what became of messages.
    :param targets: is told which targets take runs.
    :param origin: the run that starts the others, for their notes; empty outside a task.
    :param inbox_id: where the messages were leased; set for each lease, as another inbox may have the name
        by then.
    """

    hook: WorkflowHook
    inbox: str
    routes: Routes
    runs: Runs
    tally: Tally
    targets: TargetCheck
    origin: str = ""
    inbox_id: str = ""
    _rejected_in_a_row: int = 0
    _failed_in_a_row: int = 0

    def start(self, message: types.LeasedMessage) -> bool:
        """
        Start the run of a message, or find it; whether the message may be acknowledged.

        :raises TargetError: no run can be started now.
        """
        message_id = message["id"]
        if (count := lease_count(message)) >= PRECIOUS_LEASE:
            log.warning(
                "Inbox %s: message %s is on its delivery number %d", self.inbox, plain(message_id), count
            )
        content = for_people(message)
        run_id = run_id_of(message_id, self.inbox_id)
        dag_id, outcome = self._found_before(message), Start.EXISTING
        try:
            if dag_id is None:
                dag_id = self.routes.target(content)
                if dag_id is None:
                    log.debug(
                        "Inbox %s: message %s is unmatched; its lease expires", self.inbox, plain(message_id)
                    )
                    return False
                outcome = self.runs.start(dag_id, run_id, self._conf(content), self._note(message_id))
        except (RunRefused, UnroutableError) as error:
            self._reject(message, error)
            if isinstance(error, RunRefused) and not isinstance(error, Unholdable):
                self._blame(str(dag_id), error)
            return False
        self.targets.takes(dag_id, outcome)
        self._take(outcome, message_id, run_id)
        return True

    def _found_before(self, message: types.LeasedMessage) -> str | None:
        """
        The DAG of which an earlier delivery of a message has started a run.

        An expression may read what changes between deliveries, and must not choose a second DAG then; nor
        must a run that version 0.1 started be started again under its new id.
        """
        if lease_count(message) < 2:
            return None
        former = former_run_id_of(message["id"])
        run_ids = [] if former is None else [former]
        if len(self.routes.dag_ids) > 1:
            run_ids.append(run_id_of(message["id"], self.inbox_id))
        dag_ids = self.routes.dag_ids
        return next((d for d in dag_ids if any(self.runs.exists(d, each) for each in run_ids)), None)

    def _conf(self, content: dict[str, Any]) -> dict[str, Any]:
        message, replaced = storable(content)
        for part in replaced:
            log.warning(
                "Inbox %s: message %s has a value that Airflow cannot store: %s. Its run starts; where it is"
                " the"
                " payload, payload_of() of airflow_provider_workflow.dispatch.payloads returns it unchanged",
                self.inbox,
                plain(content["id"]),
                part,
            )
        return {"inbox_id": self.inbox_id, "message": message}

    def _note(self, message_id: str) -> str:
        note = f"Message {plain(message_id)} of the inbox {plain(self.inbox)}"
        return (f"{note}, started by {self.origin}" if self.origin else note)[:LONGEST_NOTE]

    def _take(self, outcome: Start, message_id: str, run_id: str) -> None:
        self._rejected_in_a_row = self._failed_in_a_row = 0
        self.tally.count(outcome.value, message_id)
        self.tally.add_run(run_id)
        metric = metrics.STARTED if outcome is Start.STARTED else metrics.EXISTING
        metrics.count(metric, 1, inbox=self.inbox, conn_id=self.hook.workflow_conn_id)

    def _reject(self, message: types.LeasedMessage, error: Exception) -> None:
        self.tally.refuse(message["id"], str(error))
        note_refusal(self.hook, self.inbox, message, error)

    def _blame(self, dag_id: str, error: RunRefused) -> None:
        """
        Decide whose fault a rejection by Airflow is: of the message, where the target takes others.

        :raises TargetError: of the target or of Airflow.
        """
        if not self.targets.has_started(dag_id):
            raise TargetError(
                f"Airflow rejected a run of the DAG {dag_id!r} before this task had started any: {error}."
                f" Correct the"
                " DAG (its params, its timetable, or the pattern of run ids). The retries of this task begin"
                " with one"
                " message each; no message is lost."
            )
        self._rejected_in_a_row += 1
        if isinstance(error, ServerFault):
            self._failed_in_a_row += 1
            # Raises where Airflow itself does not answer.
            self.runs.unfinished(dag_id)
        most_failed = MOST_FAILED_IN_A_ROW if airflow_release() >= (3, 3) else MOST_REJECTED_IN_A_ROW
        if self._rejected_in_a_row >= MOST_REJECTED_IN_A_ROW or self._failed_in_a_row >= most_failed:
            raise TargetError(
                f"Airflow rejected the last {self._rejected_in_a_row} runs of the DAG {dag_id!r} in a row,"
                f" the last one"
                f" with: {error}. No message is lost."
            )
