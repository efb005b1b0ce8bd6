"""``doctor`` on the metadata database: triggerers, the DAGs that listen, and the DAGs that they start."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
from airflow.models.errors import ParseImportError
from airflow.sdk import DAG, AssetWatcher
from airflow.utils.session import create_session

from airflow_provider_workflow.assets import create_asset
from airflow_provider_workflow.operators.inbox import (
    WorkflowAcknowledgeOperator,
    WorkflowInboxDispatchOperator,
)
from airflow_provider_workflow.sensors.inbox import WorkflowInboxSensor
from airflow_provider_workflow.triggers.notice import WorkflowInboxNoticeTrigger
from tests.unit.cli.database import Database, listening
from tests.unit.cli.test_doctor import Diagnosis, Doctor, connect, doctor
from tests.unit.client.isolation import isolated

__all__ = ["connect", "doctor", "isolated"]


@pytest.fixture(autouse=True)
def orders(doctor: Doctor) -> str:
    return doctor.emulator.open_inbox("orders")


def named(found: Diagnosis, what: str) -> list[str]:
    return [each["check"] for each in found.findings if each["check"].split()[0] == what]


def test_living_triggerers_are_counted(doctor: Doctor, database: Database) -> None:
    database.add_triggerer(seconds_ago=3600)
    database.add_triggerer(seconds_ago=0, state="success")
    database.add_triggerer()
    found = doctor.examine()["triggerer"]
    assert (found["status"], found["detail"]) == ("ok", "1 alive")


def test_a_dag_file_that_cannot_be_imported_is_named(doctor: Doctor, database: Database) -> None:
    with create_session() as session:
        session.add(ParseImportError(filename="dags/broken.py", bundle_name="tests", stacktrace="a secret"))
    found = doctor.examine()
    assert found["dag files"]["status"] == "warning"
    assert found["dag files"]["detail"] == "cannot be imported: dags/broken.py"
    assert "airflow dags list-import-errors" in found["dag files"]["fix"]
    assert "a secret" not in found.shown


def test_the_newest_version_of_a_dag_counts(doctor: Doctor, database: Database) -> None:
    database.deploy(listening("listen", inbox="orders", trigger_dag_id="before"))
    database.add_dag("after")
    database.deploy(listening("listen", inbox="orders", trigger_dag_id="after"))
    assert doctor.examine()["dags"]["detail"].endswith("listener listen, target after")


@pytest.mark.parametrize(
    ("role", "dag_id", "columns", "status", "detail", "fix"),
    [
        ("listener", "listen", {"is_paused": True}, "warning", "paused: it starts no", "dags unpause listen"),
        ("target", "handle", {"is_paused": True}, "warning", "paused: its runs", "dags unpause handle"),
        ("target", "handle", {"has_import_errors": True}, "failed", "import errors", "list-import-errors"),
        ("target", "handle", None, "failed", "no such DAG", "deploy it, or correct trigger_dag_id of listen"),
        ("dead-letter DAG", "dead", None, "failed", "no such DAG", "correct dead_letter_dag_id of listen"),
    ],
)
def test_a_dag_that_cannot_run_has_its_fix(
    doctor: Doctor,
    database: Database,
    role: str,
    dag_id: str,
    columns: dict[str, Any] | None,
    status: str,
    detail: str,
    fix: str,
) -> None:
    database.deploy(listening("listen", inbox="orders", trigger_dag_id="handle", dead_letter_dag_id="dead"))
    for other in {"handle", "dead"} - ({dag_id} if columns is None else set()):
        database.add_dag(other)
    if columns is not None:
        database.change(dag_id, **columns)

    found = doctor.examine()[f"{role} {dag_id}"]

    assert (found["status"], detail in found["detail"], fix in found["fix"]) == (status, True, True)


def test_an_inbox_that_does_not_exist_fails_with_the_name_that_was_meant(
    doctor: Doctor, database: Database
) -> None:
    database.add_dag("handle")
    database.deploy(listening("listen", inbox="order", trigger_dag_id="handle"))
    found = doctor.examine()
    assert found.of("failed") == ["listener listen"]
    assert found["listener listen"]["detail"] == (
        "it listens to the inbox 'order', which does not exist; did you mean 'orders'?"
    )
    assert "airflow-workflow inbox ensure order" in found["listener listen"]["fix"]
    assert found["listeners of orders"]["status"] == "warning"


def test_two_listeners_of_one_inbox_are_warned_of(doctor: Doctor, database: Database, orders: str) -> None:
    database.add_dag("handle")
    database.deploy(listening("first", inbox="orders", trigger_dag_id="handle"))
    database.deploy(listening("second", inbox=orders, trigger_dag_id="handle"))
    found = doctor.examine()
    assert found["listeners of orders"]["status"] == "warning"
    assert found["listeners of orders"]["detail"].startswith("first and second: ")


def test_a_dag_of_another_connection_or_inbox_is_none_of_these(doctor: Doctor, database: Database) -> None:
    database.deploy(listening("other_conn", inbox="orders", workflow_conn_id="other", trigger_dag_id="x"))
    database.deploy(listening("other_inbox", inbox="invoices", trigger_dag_id="y"))
    database.deploy(listening("gone", inbox="orders", trigger_dag_id="z"), is_stale=True)
    found = doctor.examine(None, "--inbox", "orders")
    assert (named(found, "listener"), named(found, "target")) == ([], [])
    assert found["listeners of orders"]["detail"] == "no DAG of this Airflow listens to it"
    assert "@inbox_dag" in found["listeners of orders"]["fix"]
    doctor.emulator.open_inbox("invoices")
    assert named(doctor.examine(), "target") == ["target y"]


def test_subclasses_mapped_tasks_and_templates_are_found(doctor: Doctor, database: Database) -> None:
    class Ours(WorkflowInboxSensor):
        pass

    with DAG("many", schedule=None, start_date=datetime(2025, 1, 1)) as dag:
        Ours(task_id="own", inbox="{{ var.value.inbox }}", trigger_dag_id="{{ var.value.dag }}")
        WorkflowInboxDispatchOperator.partial(task_id="each", trigger_dag_id={"handle": "`true`"}).expand(
            inbox=["a", "b"]
        )
        WorkflowAcknowledgeOperator(task_id="end", lease={"lease_id": "x"})
    database.deploy(dag)
    found = doctor.examine()
    assert found["dags"]["detail"].endswith("listener many")
    assert named(found, "target") == ["target handle"]
    assert named(found, "listeners") == [], "it may be the listener of any inbox"


def test_a_dag_that_is_scheduled_on_a_watched_asset_is_found(doctor: Doctor, database: Database) -> None:
    trigger = WorkflowInboxNoticeTrigger(inbox="orders")
    asset = create_asset(inbox="orders", watchers=[AssetWatcher(name="orders", trigger=trigger)])
    database.deploy(DAG("noticed", schedule=(asset & create_asset(inbox="else"))))
    database.deploy(listening("listen", inbox="orders", trigger_dag_id="noticed"))
    found = doctor.examine()
    assert found["dags"]["detail"].endswith("listener listen, target noticed, listener noticed")
    assert named(found, "listeners") == [], "a watcher that only tells of messages leases none"
