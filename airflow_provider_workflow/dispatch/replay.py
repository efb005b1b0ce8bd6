"""
The replay of a dead letter: the run that the dispatcher would have started, but for its trace.

So a message that is replayed twice, or redelivered after its replay, finds its run. The dead letter stays as
it is. The page, the command line and the operator replay by ``Replay.of(...).start(...)``, which decides in
this order:

1. The run is the dead letter of the message in its conf.
2. There is a DAG to start: the one that is named, or else the target of the dead letter.
3. The user may start runs of that DAG, and of the target.
4. No run of the message exists: otherwise that run is the outcome.
5. The DAG can be started.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from airflow_provider_workflow import observers
from airflow_provider_workflow.client import tolerant_json
from airflow_provider_workflow.dispatch.payloads import storable
from airflow_provider_workflow.dispatch.runs import DEAD_LETTER_PREFIX, Runs, Start, is_run_id, run_id_of
from airflow_provider_workflow.inbox_names import name_of
from airflow_provider_workflow.text import escaped, quoted


class Outcome(Enum):
    """What a replay did, or would do."""

    STARTED = "started"
    EXISTING = "existing"
    WOULD_START = "would_start"


class NotReplayableError(ValueError):
    """A dead letter cannot be replayed."""


class WrongRunError(NotReplayableError):
    """The run with this conf is not the dead letter of the message in it."""

    def __init__(self) -> None:
        super().__init__("its run id is not that of a dead letter of its message")


class NoTargetError(NotReplayableError):
    """There is no DAG to start."""

    def __init__(self) -> None:
        super().__init__("it has no target, as no DAG rejected it: give trigger_dag_id")


@dataclass(frozen=True)
class Replay:
    """
    The run that replays a dead letter.

    :param target_dag_id: the DAG that rejected the message; None if no DAG did.
    :param run_id: id of the run.
    :param conf: its ``conf``, as the dispatcher makes it.
    :param inbox_name: of the inbox; its id if the dead letter has no name. For logs and notes.
    """

    target_dag_id: str | None
    run_id: str
    conf: dict[str, Any]
    inbox_name: str

    @classmethod
    def of(cls, conf: Mapping[str, Any], dead_letter_run_id: str | None = None) -> Replay:
        """
        The replay of a dead letter.

        :param conf: the ``conf`` of the dead-letter DAG's run.
        :param dead_letter_run_id: the id of that run; None if only its conf is known.
        :raises WrongRunError: the run is not the dead letter of this message.
        :raises NotReplayableError: the conf is not that of a dead letter.
        """
        text, target = conf.get("message_json"), conf.get("target_dag_id")
        if not isinstance(text, str):
            raise NotReplayableError("its conf has no message_json")
        try:
            message = tolerant_json.decode(text)
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
        own_run_id = run_id_of(message_id, inbox_id, DEAD_LETTER_PREFIX)
        if dead_letter_run_id not in (None, own_run_id):
            raise WrongRunError
        name = conf.get("inbox_name")
        name = name if isinstance(name, str) and name else name_of(inbox_id, connection_id)
        content = storable(message, inbox=escaped(name))
        return cls(
            target or None,
            run_id,
            {"connection_id": connection_id, "inbox_id": inbox_id, "message": content},
            name,
        )

    def start(
        self,
        runs: Runs,
        trigger_dag_id: str | None,
        origin: str,
        *,
        check_permission: Callable[[Collection[str]], None] | None = None,
        search: Callable[[Replay], Collection[str]] | None = None,
        dry_run: bool = False,
    ) -> tuple[str, Outcome]:
        """
        Start the run, unless the message has one.

        :param trigger_dag_id: the DAG; None for the target of the dead letter.
        :param origin: where it is started from, for the note of the run; strings of others are ``quoted``.
        :param check_permission: raises an error unless runs of all of these DAGs may be started.
        :param search: returns the DAGs that have the run, for those who can search all of them. Such runs
            are started without a check by Airflow's API server, so the DAG is checked first.
        :param dry_run: whether to start nothing.
        :return: the DAG that has the run, or would get it, and the outcome.
        :raises NoTargetError: there is neither a target nor ``trigger_dag_id``.
        :raises RunRejected: Airflow rejects the run; nothing was started.
        :raises TargetError: no run of the DAG can be started at present.
        """
        dag_id = trigger_dag_id or self.target_dag_id
        if dag_id is None:
            raise NoTargetError
        target_dag_id = self.target_dag_id or dag_id
        if check_permission is not None:
            check_permission({dag_id, target_dag_id})
        if search is not None:
            for existing_dag_id in search(self):
                return existing_dag_id, Outcome.EXISTING
            runs.check_target(dag_id)
        elif target_dag_id != dag_id and runs.find(target_dag_id, self.run_id, self.conf):
            return target_dag_id, Outcome.EXISTING
        if dry_run:
            return dag_id, Outcome.WOULD_START
        message_id, name = self.conf["message"]["id"], quoted(self.inbox_name)
        note = f"Message {quoted(message_id)} of the inbox {name}, replayed by {origin}"
        if runs.start(dag_id, self.run_id, self.conf, note) is not Start.STARTED:
            return dag_id, Outcome.EXISTING
        observers.notify("replayed", inbox=self.conf["inbox_id"], conn_id=self.conf["connection_id"])
        return dag_id, Outcome.STARTED
