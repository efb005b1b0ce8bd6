"""What the serialized DAGs say about inboxes and pools."""

from __future__ import annotations

from datetime import datetime

import pytest
from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG

from airflow_provider_workflow import airflow_internals
from airflow_provider_workflow.database.inbox_uses import deployed
from tests.unit.cli.database import Database


@pytest.mark.parametrize(("pool", "shares"), [({"pool": "own"}, False), ({}, True)])
def test_the_pool_of_a_mapped_task_is_read(database: Database, pool: dict[str, str], shares: bool) -> None:
    with DAG("mapped", schedule=None, start_date=datetime(2025, 1, 1)) as dag:
        BashOperator.partial(task_id="work", **pool).expand(bash_command=["true", "false"])
    database.deploy(dag)

    with airflow_internals.database_session() as session:
        assert deployed("mapped", session).shares_slots is shares
