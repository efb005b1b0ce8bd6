"""Dead letters in a metadata database, as a dispatch puts them there, and the DAGs that they are about."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from airflow.models.dagrun import DagRun
from airflow.utils.session import create_session
from sqlalchemy import select

from airflow_provider_workflow import types
from airflow_provider_workflow.airflow_internals import create_dag_run
from airflow_provider_workflow.database.dag_runs import DatabaseRuns
from airflow_provider_workflow.dispatch.blame import Reason
from airflow_provider_workflow.dispatch.dead_letters import conf_of
from airflow_provider_workflow.dispatch.delivery import Delivery
from airflow_provider_workflow.dispatch.runs import DEAD_LETTER_PREFIX, run_id_of
from tests.unit.cli.database import Database, listening

INBOX_ID = "00000000-0000-4000-8000-000000000001"
CONNECTION_ID = "workflow_default"
PAYLOAD = "the payload of a message"


def message_of(message_id: str, payload: Any = None, **more: Any) -> types.LeasedMessage:
    """A leased message."""
    message: Any = {
        "id": message_id,
        "created_at": "2026-01-01T00:00:00Z",
        "payload": {"n": message_id} if payload is None else payload,
        "message_attributes": {"lease_count": 3},
        "status": "leased",
        **more,
    }
    return message


def start(message_id: str, inbox_id: str, **more: Any) -> str:
    """Start the run of a message, as the dispatcher does."""
    run_id = run_id_of(message_id, inbox_id)
    message = message_of(message_id, **{"payload": {"text": PAYLOAD}, **more})
    conf = {"connection_id": CONNECTION_ID, "inbox_id": inbox_id, "message": message}
    DatabaseRuns().start("handle", run_id, conf)
    return run_id


class DeadLetterRuns:
    """
    The runs of dead-letter DAGs in a metadata database; it starts them, and finds the runs of their replays.

    :param database: it has the DAGs ``dead`` and ``handle``.
    """

    def __init__(self, database: Database) -> None:
        self.database = database

    def bury(
        self,
        message_id: str,
        payload: Any = None,
        *,
        reason: Reason = Reason.REJECTED,
        target: str | None = "handle",
        dag_id: str = "dead",
        connection_id: str = CONNECTION_ID,
        inbox_id: str = INBOX_ID,
        age: timedelta | None = None,
        cause: str = "a made-up cause",
        changes: dict[str, Any] | None = None,
    ) -> str:
        """
        Make a dead letter of a message; return the id of its run.

        :param changes: what its conf has instead.
        """
        run_id = run_id_of(message_id, inbox_id, DEAD_LETTER_PREFIX)
        delivery = Delivery.of(inbox_id, message_of(message_id, payload))
        target_run_id = run_id_of(message_id, inbox_id)
        conf = conf_of(delivery, connection_id, target, reason, cause, target_run_id)
        DatabaseRuns().start(dag_id, run_id, {**conf, **(changes or {})})
        if age is not None:
            self.backdate(dag_id, run_id, age)
        return run_id

    def forge(self, message_id: str, *, user: str, inbox_id: str = INBOX_ID) -> str:
        """Start a run like a dead letter's by Airflow's REST API; return its id."""
        run_id = run_id_of(message_id, inbox_id, DEAD_LETTER_PREFIX)
        delivery = Delivery.of(inbox_id, message_of(message_id))
        target_run_id = run_id_of(message_id, inbox_id)
        conf = conf_of(delivery, CONNECTION_ID, "handle", Reason.REJECTED, "forged", target_run_id)
        create_dag_run("dead", run_id, dict(conf), None, triggered_by="REST_API", user=user)
        return run_id

    def backdate(self, dag_id: str, run_id: str, age: timedelta) -> None:
        """Let a run be that old."""
        with create_session() as session:
            query = select(DagRun).where(DagRun.dag_id == dag_id, DagRun.run_id == run_id)
            for run in session.scalars(query):
                run.run_after = datetime.now(UTC) - age

    def replays(self, dag_id: str = "handle") -> dict[str, dict[str, Any]]:
        """The conf of each run of a target, by run id."""
        return self.database.runs(dag_id)


@pytest.fixture
def dead_letter_runs(database: Database) -> DeadLetterRuns:
    """With a listener, of connections and inboxes that are known at run time, which names ``dead``."""
    database.add_dag("dead")
    database.add_dag("handle")
    known_later = dict.fromkeys(("inbox", "workflow_conn_id"), "{{ var.value.later }}")
    database.deploy(listening("any_inbox", **known_later, trigger_dag_id="handle", dead_letter_dag_id="dead"))
    return DeadLetterRuns(database)
