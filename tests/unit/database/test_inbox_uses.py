"""What the serialized DAGs say about inboxes and dead letters."""

from __future__ import annotations

from airflow_provider_workflow import airflow_internals
from airflow_provider_workflow.database.inbox_uses import inbox_uses
from tests.unit.cli.database import Database, listening


def test_the_dead_letter_dag_of_a_listener_is_known_unless_it_is_a_template(database: Database) -> None:
    for dag_id, dead_letters in (("a", "dead"), ("b", "{{ var.value.dead }}"), ("c", None)):
        database.deploy(
            listening(dag_id, inbox="orders", trigger_dag_id="handle", dead_letter_dag_id=dead_letters)
        )

    with airflow_internals.database_session() as session:
        uses = {use.dag_id: use.dead_letter_dag_id for use in inbox_uses(session)}

    assert uses == {"a": "dead", "b": None, "c": None}
