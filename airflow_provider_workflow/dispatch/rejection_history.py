"""
Which messages a target DAG rejected, and whether it has started another run since: for the next process.

A process that has started no run of a target cannot tell whether a rejection is the fault of the message or
of the target. If the target rejects a message again, and has started a run of another one in between, the
message is at fault. Without that knowledge the target is presumed to be at fault, which loses nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from airflow_provider_workflow.dispatch.inbox_variable import MOST_KEPT, InboxVariable, mark

PREFIX = "workflow_rejected__"
DESCRIPTION = (
    "Messages that a target DAG rejected, as hashes of their ids: 1 if it has started another run since."
    " May be deleted."
)

Rejected = dict[str, bool]
"""By the hash of a message: whether the target has started another run since it rejected the message."""


@dataclass
class RejectionHistory:
    """
    The rejections of one inbox, in an Airflow Variable. It is read before the first run is started.

    :param conn_id: id of the Airflow connection.
    :param inbox: id or name.
    """

    conn_id: str
    inbox: str
    _by_dag: dict[str, Rejected] = field(default_factory=dict)
    _changed: bool = False

    def load(self) -> None:
        """Read what earlier processes stored."""
        self._by_dag, self._changed = _checked(self._variable.read()), False

    def reject(self, dag_id: str, message_id: str) -> bool:
        """
        Record a rejection.

        :return: whether the target has started another run since it rejected this message before.
        """
        rejected = self._by_dag.setdefault(dag_id, {})
        was_at_fault = rejected.pop(mark(message_id), False)
        rejected[mark(message_id)] = False
        self._changed = True
        return was_at_fault

    def start(self, dag_id: str) -> None:
        """Record that the target started a run."""
        rejected = self._by_dag.get(dag_id, {})
        if not all(rejected.values()):
            self._by_dag[dag_id] = dict.fromkeys(rejected, True)
            self._changed = True

    def end(self, message_id: str) -> None:
        """A message has its run, or is a dead letter."""
        for rejected in self._by_dag.values():
            if rejected.pop(mark(message_id), None) is not None:
                self._changed = True

    def discard(self) -> None:
        """Store nothing: the task is being ended."""
        self._changed = False

    def save(self) -> None:
        """
        Store the history, if it has changed.

        Of two processes that do so at once one overwrites the other: a rejection is forgotten, no more.
        """
        if self._changed:
            self._variable.write({dag_id: _newest(each) for dag_id, each in self._by_dag.items() if each})
            self._changed = False

    @property
    def _variable(self) -> InboxVariable:
        return InboxVariable.of(PREFIX, self.conn_id, self.inbox, DESCRIPTION)


def _newest(rejected: Rejected) -> dict[str, int]:
    return {each: int(started) for each, started in list(rejected.items())[-MOST_KEPT:]}


def _checked(document: Any) -> dict[str, Rejected]:
    """The document of the Variable, as far as it is what this class writes."""
    if not isinstance(document, dict):
        return {}
    return {
        dag_id: {each: bool(started) for each, started in rejected.items()}
        for dag_id, rejected in document.items()
        if isinstance(rejected, dict)
    }
