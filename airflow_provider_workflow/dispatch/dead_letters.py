"""
Dead letters: messages that start a run of the dead-letter DAG, because no run of their target can be started.

The service has no replay and no payload of a quarantined message (docs/service.md 3.2), so a message becomes
a dead letter before its last delivery. A task of the dead-letter DAG reads it with :func:`message_of`::

    from airflow_provider_workflow.dispatch.dead_letters import message_of

    message = message_of(dag_run.conf)

Whether a message is a dead letter is one question of :class:`DeadLetterRules`, for drains and for batches.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from airflow_provider_workflow import observers
from airflow_provider_workflow.client import tolerant_json
from airflow_provider_workflow.dispatch.blame import Fault, Reason
from airflow_provider_workflow.dispatch.delivery import Delivery
from airflow_provider_workflow.dispatch.payload_store import REFERENCE, PayloadStoreError
from airflow_provider_workflow.dispatch.payloads import payload_of
from airflow_provider_workflow.dispatch.run_errors import RunRejected, TargetError
from airflow_provider_workflow.dispatch.runs import DEAD_LETTER_PREFIX, MessageRuns, Start, run_id_of
from airflow_provider_workflow.inbox_names import name_of
from airflow_provider_workflow.text import ascii_of, escaped, quoted
from airflow_provider_workflow.types import DeadLetter as DeadLetter

if TYPE_CHECKING:
    from airflow_provider_workflow.dispatch.results import Counts

log = logging.getLogger(__name__)

MAX_CAUSE_LENGTH = 500


@dataclass(frozen=True)
class DeadLetterRules:
    """
    When messages become dead letters.

    :param dag_id: the dead-letter DAG.
    :param after: delivery count, 1 to 4, from which a rejected message is a dead letter.
    :param unmatched: whether a message that no route takes is one too: ``dead_letter``, or ``lease`` if it is
        left to its lease.
    """

    dag_id: str
    after: int = 3
    unmatched: Literal["lease", "dead_letter"] = "lease"

    def is_due(self, delivery: Delivery, fault: Fault) -> bool:
        """
        Whether a message that starts no run is a dead letter on this delivery.

        One that is at fault itself is one from ``after`` deliveries on; without a count any delivery may be
        the last one. One that may be sound is one only if the service would soon quarantine it.
        """
        if fault is Fault.TARGET:
            return delivery.is_last_safe
        return delivery.known_count is None or delivery.known_count >= self.after


@dataclass
class DeadLetters:
    """
    Starts runs of the dead-letter DAG.

    :param runs: starts and finds the runs.
    :param inbox: id or name, for log lines.
    :param counts: where dead letters are counted.
    :param store_error: why the payload of a dead letter could not be written: nothing more should be leased.
    """

    rules: DeadLetterRules
    runs: MessageRuns
    inbox: str
    counts: Counts
    store_error: PayloadStoreError | None = None

    @property
    def _name(self) -> str:
        return name_of(self.inbox, self.runs.connection_id)

    def is_found(self, delivery: Delivery) -> bool:
        """
        Whether a message that may have been delivered before is a dead letter already.

        :raises TargetError: Airflow does not answer.
        """
        if delivery.is_first or self.runs.find(self.rules.dag_id, delivery, dead_letter=True) is None:
            return False
        self.counts.count("dead_lettered", delivery.id)
        return True

    def may_have_run(self, delivery: Delivery, dag_id: str | None) -> bool:
        """
        Whether a message may have its own run of its target.

        An error or a lost answer does not say.
        """
        try:
            return dag_id is not None and self.runs.find(dag_id, delivery) is Start.EXISTING
        except TargetError:
            return True

    def start(
        self,
        delivery: Delivery,
        target_dag_id: str | None,
        reason: Reason,
        cause: str,
    ) -> bool:
        """
        Start the run of a dead letter, or find it.

        :return: whether the run exists, so that the message may be acknowledged. If not, an ERROR line names
            the causes, and the message is left to its lease.
        """
        conn_id, target_run_id = self.runs.connection_id, self.runs.run_id(delivery)
        run_id = run_id_of(delivery.id, delivery.inbox_id, DEAD_LETTER_PREFIX)
        note = f"Message {quoted(delivery.id)} of the inbox {quoted(self._name)}, a dead letter: {reason}"
        try:
            written = replace(delivery, message=self.runs.content_of(delivery))
            conf = conf_of(written, conn_id, target_dag_id, reason, cause, target_run_id)
            outcome = self.runs.runs.start(self.rules.dag_id, run_id, dict(conf), note)
        except (RunRejected, TargetError, PayloadStoreError) as error:
            self._leave(delivery, cause, error)
            return False
        self.counts.count("dead_lettered", delivery.id)
        if outcome is Start.STARTED:
            observers.notify("dead_lettered", inbox=self.inbox, conn_id=conn_id)
            log.warning(
                "Inbox %s: message %s is a dead letter (%s): started the run %s of the DAG %s. Cause: %s",
                self._name,
                escaped(delivery.id),
                reason,
                run_id,
                self.rules.dag_id,
                cause,
            )
        return True

    def _leave(self, delivery: Delivery, cause: str, error: Exception) -> None:
        """Leave a message whose dead letter was not started to its lease."""
        if isinstance(error, PayloadStoreError):
            self.store_error = error
        log.error(
            "Inbox %s: message %s was rejected, and its dead letter in the DAG %s was not started; it is"
            " redelivered when its lease expires. First cause: %s. Second cause: %s",
            self._name,
            escaped(delivery.id),
            self.rules.dag_id,
            cause,
            error,
        )
        self.counts.reject(delivery.id, f"{cause}; and its dead letter was not started: {error}")


def conf_of(
    delivery: Delivery,
    connection_id: str,
    target_dag_id: str | None,
    reason: Reason,
    cause: str,
    target_run_id: str,
) -> DeadLetter:
    """
    The ``conf`` of a dead letter; what it has of the service is ASCII.

    :param delivery: of the message, which may have a reference of its payload.
    """
    created_at = delivery.message["created_at"]
    return {
        "connection_id": connection_id,
        "inbox_id": ascii_of(delivery.inbox_id),
        "inbox_name": ascii_of(name_of(delivery.inbox_id, connection_id)),
        "message_id": ascii_of(delivery.id),
        "created_at": ascii_of(created_at) if isinstance(created_at, str) else None,
        "delivery_count": delivery.count,
        "reason": reason.value,
        "cause": ascii_of(cause, MAX_CAUSE_LENGTH),
        "target_dag_id": target_dag_id,
        "target_run_id": target_run_id,
        "message_json": tolerant_json.dumped(delivery.message),
    }


def message_of(conf: Mapping[str, Any]) -> dict[str, Any]:
    """
    The message of a dead letter, exactly as the service sent it: ``id``, ``created_at``, ``payload`` and
    ``message_attributes``.

    :param conf: the ``conf`` of the dead-letter DAG's run.
    :raises PayloadStoreError: its payload is in the payload store, and cannot be read.
    """
    message: dict[str, Any] = tolerant_json.decode(conf["message_json"])
    if message.get("payload_object") is not None:
        message["payload"] = payload_of(message)
        for name in REFERENCE:
            message.pop(name, None)
    return message
