"""
Dead letters: messages that start a run of the dead-letter DAG, because no run of their target can be started.

The service has no replay and no payload of a quarantined message (docs/service.md 3.2), so a message becomes
a dead letter before its last delivery. A task of the dead-letter DAG reads it with :func:`message_of`::

    from airflow_provider_workflow.dispatch.dead_letters import message_of

    message = message_of(dag_run.conf)

A replay starts the run that the dispatcher would have started, but for its trace. So a message that is
replayed twice, or redelivered after its replay, finds its run. The dead letter stays as it is.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from airflow_provider_workflow import observers, types
from airflow_provider_workflow.client import any_json
from airflow_provider_workflow.client.wire import plain
from airflow_provider_workflow.dispatch.lease import deliveries, delivery_count, is_first, without_lease
from airflow_provider_workflow.dispatch.payloads import storable
from airflow_provider_workflow.dispatch.run_errors import RunRejected, TargetError
from airflow_provider_workflow.dispatch.runs import (
    DEAD_LETTER_PREFIX,
    InboxRuns,
    Runs,
    Start,
    ascii_of,
    is_run_id,
    quoted,
    run_id_of,
)
from airflow_provider_workflow.options import DEAD_LETTER_AFTER
from airflow_provider_workflow.types import DeadLetter as DeadLetter

if TYPE_CHECKING:
    from airflow_provider_workflow.dispatch.results import Counts

log = logging.getLogger(__name__)

LAST_SAFE_DELIVERY = DEAD_LETTER_AFTER[1]
"""From this delivery count on a message becomes a dead letter even if its target is at fault."""
LONGEST_CAUSE = 500


class Reason(StrEnum):
    """Why a message is a dead letter."""

    REJECTED = "rejected"  #: Airflow rejects its run, and starts runs of other messages
    EXPRESSION = "expression"  #: an expression cannot be evaluated on it
    INVALID = "invalid"  #: its payload does not fit the schema, or a check of it takes too long
    UNMATCHED = "unmatched"  #: no route takes it
    TARGET = "target"  #: the target starts no runs, and the service would soon quarantine the message
    UNDECIDED = "undecided"  #: its earlier deliveries ended without a decision, as if it kills the process
    FAILED = "failed"  #: the function of a ``@task.workflow_inbox`` failed for it


def is_on_last_safe_delivery(message: types.LeasedMessage) -> bool:
    """Whether the service would soon quarantine a message."""
    return deliveries(message) >= LAST_SAFE_DELIVERY


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
    unmatched: str = "lease"


@dataclass
class DeadLetters:
    """
    Starts runs of the dead-letter DAG.

    :param runs: of the inbox.
    :param inbox: id or name, for log lines.
    :param counts: where dead letters are counted.
    """

    rules: DeadLetterRules
    runs: InboxRuns
    inbox: str
    counts: Counts

    def is_due(self, message: types.LeasedMessage) -> bool:
        """
        Whether a message is a dead letter by its delivery count, if it is at fault itself.

        Without a count any delivery may be the last one.
        """
        count = delivery_count(message)
        return count is None or count >= self.rules.after

    def is_found(self, message: types.LeasedMessage) -> bool:
        """
        Whether a message that may have been delivered before is a dead letter already.

        :raises TargetError: Airflow does not answer.
        """
        if is_first(message):
            return False
        if self.runs.find(self.rules.dag_id, message, dead_letter=True) is None:
            return False
        self.counts.count("dead_lettered", message["id"])
        return True

    def may_have_run(self, message: types.LeasedMessage, dag_id: str | None) -> bool:
        """
        Whether a message may have its own run of its target.

        An error or a lost answer does not say.
        """
        try:
            return dag_id is not None and self.runs.find(dag_id, message) is Start.EXISTING
        except TargetError:
            return True

    def start(
        self,
        message: types.LeasedMessage,
        target_dag_id: str | None,
        reason: Reason,
        cause: str,
    ) -> bool:
        """
        Start the run of a dead letter, or find it.

        :return: whether the run exists, so that the message may be acknowledged. If not, an ERROR line names
            both causes, and the message is left to its lease.
        """
        conn_id, inbox_id = self.runs.connection_id, self.runs.inbox_id
        target_run_id = self.runs.run_id(message)
        conf = conf_of(message, conn_id, inbox_id, target_dag_id, reason, cause, target_run_id)
        run_id = run_id_of(message["id"], inbox_id, DEAD_LETTER_PREFIX)
        message_id, inbox = quoted(message["id"]), quoted(self.inbox)
        note = f"Message {message_id} of the inbox {inbox}, a dead letter: {reason}"
        try:
            outcome = self.runs.runs.start(self.rules.dag_id, run_id, dict(conf), note)
        except (RunRejected, TargetError) as error:
            log.error(
                "Inbox %s: message %s was rejected, and the dead-letter DAG %s rejected it too; it is"
                " redelivered when its lease expires. First cause: %s. Second cause: %s",
                plain(self.inbox),
                plain(message["id"]),
                self.rules.dag_id,
                cause,
                error,
            )
            self.counts.reject(message["id"], f"{cause}; and its dead letter was not started: {error}")
            return False
        self.counts.count("dead_lettered", message["id"])
        if outcome is Start.STARTED:
            observers.tell("dead_lettered", inbox=self.inbox, conn_id=conn_id)
            log.warning(
                "Inbox %s: message %s is a dead letter (%s): started the run %s of the DAG %s. Cause: %s",
                plain(self.inbox),
                plain(message["id"]),
                reason,
                run_id,
                self.rules.dag_id,
                cause,
            )
        return True


def conf_of(
    message: types.LeasedMessage,
    connection_id: str,
    inbox_id: str,
    target_dag_id: str | None,
    reason: Reason,
    cause: str,
    target_run_id: str,
) -> DeadLetter:
    """The ``conf`` of a dead letter; what it has of the service is ASCII."""
    created_at = message.get("created_at")
    return {
        "connection_id": connection_id,
        "inbox_id": ascii_of(inbox_id),
        "message_id": ascii_of(message["id"]),
        "created_at": ascii_of(created_at) if isinstance(created_at, str) else None,
        "delivery_count": deliveries(message),
        "reason": reason.value,
        "cause": ascii_of(cause, LONGEST_CAUSE),
        "target_dag_id": target_dag_id,
        "target_run_id": target_run_id,
        "message_json": any_json.dumped(without_lease(message)),
    }


def message_of(conf: Mapping[str, Any]) -> dict[str, Any]:
    """
    The message of a dead letter, exactly as the service sent it: ``id``, ``created_at``, ``payload`` and
    ``message_attributes``.

    :param conf: the ``conf`` of the dead-letter DAG's run.
    """
    message: dict[str, Any] = any_json.decode(conf["message_json"])
    return message


class NotReplayableError(ValueError):
    """A conf is not that of a dead letter, or no target is known."""


NO_TARGET = "it has no target, as no DAG rejected it: give trigger_dag_id"


@dataclass(frozen=True)
class Replay:
    """
    The run that replays a dead letter.

    :param target_dag_id: the DAG that rejected the message; None if no DAG did.
    :param run_id: id of the run.
    :param conf: its ``conf``, as the dispatcher makes it.
    :param dead_letter_run_id: the run id of the dead letter that the dispatcher made of this message.
    """

    target_dag_id: str | None
    run_id: str
    conf: dict[str, Any]
    dead_letter_run_id: str

    @classmethod
    def of(cls, conf: Mapping[str, Any]) -> Replay:
        """
        The replay of a dead letter.

        :param conf: the ``conf`` of the dead-letter DAG's run.
        :raises NotReplayableError: it is not a dead letter.
        """
        text, target = conf.get("message_json"), conf.get("target_dag_id")
        if not isinstance(text, str):
            raise NotReplayableError("its conf has no message_json")
        try:
            message = any_json.decode(text)
        except ValueError:
            message = None
        if not isinstance(message, dict):
            raise NotReplayableError("message_json in its conf is not a message")
        message_id = message.get("id")
        if not isinstance(message_id, str) or not message_id:
            raise NotReplayableError("message_json in its conf has no id")
        connection_id, inbox_id = conf.get("connection_id"), conf.get("inbox_id")
        if not isinstance(connection_id, str) or not isinstance(inbox_id, str):
            raise NotReplayableError("its conf has no connection_id or no inbox_id")
        if not (target is None or isinstance(target, str)):
            raise NotReplayableError("its conf has a target_dag_id that is not a string")
        run_id = conf.get("target_run_id")
        if not isinstance(run_id, str) or not is_run_id(run_id):
            raise NotReplayableError("its conf has a target_run_id that is not the id of a message's run")
        content = storable(message, inbox=observers.name_of(inbox_id, connection_id))
        return cls(
            target or None,
            run_id,
            {"connection_id": connection_id, "inbox_id": inbox_id, "message": content},
            run_id_of(message_id, inbox_id, DEAD_LETTER_PREFIX),
        )

    def start(self, runs: Runs, trigger_dag_id: str | None, origin: str) -> tuple[str, Start]:
        """
        Start the run, or find it: in the DAG, or in the target of the dead letter.

        :param trigger_dag_id: the DAG; None for the target of the dead letter.
        :param origin: where it is started from, for the note of the run; strings of others are ``quoted``.
        :return: the DAG that has the run, and whether this call started it.
        :raises NotReplayableError: there is neither a target nor ``trigger_dag_id``.
        :raises RunRejected: Airflow rejects the run; nothing was started.
        :raises TargetError: no run of the DAG can be started at present.
        """
        dag_id = trigger_dag_id or self.target_dag_id
        if dag_id is None:
            raise NotReplayableError(NO_TARGET)
        if self.target_dag_id not in (None, dag_id) and runs.find(
            str(self.target_dag_id), self.run_id, self.conf
        ):
            return str(self.target_dag_id), Start.EXISTING
        inbox_id = self.conf["inbox_id"]
        message_id = self.conf["message"]["id"]
        of_inbox = f"of the inbox {quoted(inbox_id)}"
        note = f"Message {quoted(message_id)} {of_inbox}, replayed by {origin}"
        outcome = runs.start(dag_id, self.run_id, self.conf, note)
        if outcome is not Start.STARTED:
            return dag_id, Start.EXISTING
        observers.tell("replayed", inbox=inbox_id, conn_id=self.conf["connection_id"])
        return dag_id, outcome
