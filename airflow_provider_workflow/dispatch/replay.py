"""
The replay of a dead letter: the run that the dispatcher would have started, but for its trace.

So a message that is replayed twice, or redelivered after its replay, finds its run. The dead letter stays as
it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from airflow_provider_workflow import observers
from airflow_provider_workflow.client import any_json
from airflow_provider_workflow.dispatch.payloads import storable
from airflow_provider_workflow.dispatch.runs import DEAD_LETTER_PREFIX, Runs, Start, is_run_id, run_id_of
from airflow_provider_workflow.inbox_names import name_of
from airflow_provider_workflow.text import quoted


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
        content = storable(message, inbox=name_of(inbox_id, connection_id))
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
