"""``doctor`` on the metadata database: triggerers, the DAGs that listen, and the DAGs that they start."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from airflow import settings
from airflow.models.errors import ParseImportError
from airflow.sdk import DAG, AssetWatcher
from airflow.utils.session import create_session
from sqlalchemy import create_engine

from airflow_provider_workflow.assets import create_asset
from airflow_provider_workflow.operators.inbox import (
    WorkflowAcknowledgeOperator,
    WorkflowInboxDispatchOperator,
)
from airflow_provider_workflow.sensors.inbox import WorkflowInboxSensor
from airflow_provider_workflow.triggers.notice import WorkflowInboxNoticeTrigger
from tests.unit.cli.database import Database, listening
from tests.unit.cli.diagnosing import Diagnosis, Doctor, connect, doctor
from tests.unit.client.isolation import isolated

__all__ = ["connect", "doctor", "isolated"]

OURS = "airflow_provider_workflow.triggers.inbox.WorkflowInboxTrigger"


@pytest.fixture(autouse=True)
def orders(doctor: Doctor) -> str:
    return doctor.emulator.open_inbox("orders")


def named(found: Diagnosis, what: str) -> list[str]:
    return [each["check"] for each in found.findings if each["check"].split()[0] == what]


def test_a_database_out_of_reach_skips_what_needs_it_and_fails_nothing(
    doctor: Doctor, tmp_path: Path, database: Database
) -> None:
    engine = create_engine(f"sqlite:///{tmp_path}/marked-password/airflow.db")
    settings.Session.remove()
    settings.Session.configure(bind=engine)
    found = doctor.examine()
    assert found.exit_code == 0
    assert found.of("skipped") == ["database"]
    assert found["database"]["detail"] == "it cannot be read from here: OperationalError"
    assert found["database"]["fix"].endswith("run doctor where airflow db check succeeds")
    assert "triggerer" not in [each["check"] for each in found.findings]
    assert "marked-password" not in found.shown


def test_living_triggerers_are_counted(doctor: Doctor, database: Database) -> None:
    database.add_triggerer(seconds_ago=3600)
    database.add_triggerer(seconds_ago=0, state="success")
    database.add_triggerer()
    found = doctor.examine()["triggerer"]
    assert (found["status"], found["detail"]) == ("ok", "1 alive")


@pytest.mark.parametrize(
    ("job", "said"),
    [
        (None, "none is running"),
        ({"seconds_ago": 7300}, "the last heartbeat is 2 h old"),
        ({"seconds_ago": 0, "state": "success"}, "none is running"),
    ],
)
def test_a_triggerer_that_is_not_alive_fails_where_triggers_wait(
    doctor: Doctor, database: Database, job: dict[str, Any] | None, said: str
) -> None:
    if job is not None:
        database.add_triggerer(**job)
    database.add_trigger("airflow.providers.standard.triggers.temporal.DateTimeTrigger")
    found = doctor.examine()
    assert found.exit_code == 0
    assert found["triggerer"]["status"] == "warning"
    assert found["triggerer"]["detail"].startswith(f"no triggerer is alive: {said}")
    database.add_trigger(OURS)
    found = doctor.examine()
    assert found.of("failed") == ["triggerer"]
    assert found["triggerer"]["detail"].endswith("; 1 triggers of this provider wait")
    assert found["triggerer"]["fix"].startswith("start one: airflow triggerer")


def test_a_dag_file_that_cannot_be_imported_is_named(doctor: Doctor, database: Database) -> None:
    with create_session() as session:
        session.add(ParseImportError(filename="dags/broken.py", bundle_name="tests", stacktrace="a secret"))
    found = doctor.examine()
    assert found["dag files"]["status"] == "warning"
    assert found["dag files"]["detail"] == "cannot be imported: dags/broken.py"
    assert "airflow dags list-import-errors" in found["dag files"]["fix"]
    assert "a secret" not in found.shown


def test_listener_targets_and_dead_letter_dag_are_found(doctor: Doctor, database: Database) -> None:
    routes = {"a": "`true`", "b": "id"}
    database.deploy(listening("listen", inbox="orders", trigger_dag_id=routes, dead_letter_dag_id="dead"))
    for dag_id in ("a", "b", "dead", "unrelated"):
        database.add_dag(dag_id)
    found = doctor.examine()
    assert found["dags"]["status"] == "ok"
    assert found["dags"]["detail"] == (
        "deployed and unpaused: listener listen, target a, target b, dead-letter DAG dead"
    )
    assert found.of("failed") == []
    assert named(found, "listeners") == []


def test_the_newest_version_of_a_dag_counts(doctor: Doctor, database: Database) -> None:
    database.deploy(listening("listen", inbox="orders", trigger_dag_id="before"))
    database.add_dag("after")
    database.deploy(listening("listen", inbox="orders", trigger_dag_id="after"))
    assert doctor.examine()["dags"]["detail"].endswith("listener listen, target after")


PROBLEMS = [
    ({"is_paused": True}, "warning", "paused: ", "airflow dags unpause"),
    ({"has_import_errors": True}, "failed", "import errors", "airflow dags list-import-errors"),
    ({"is_stale": True}, "failed", "no such DAG", "deploy it, or correct"),
    (None, "failed", "no such DAG", "deploy it, or correct"),
]


@pytest.mark.parametrize(("columns", "status", "said", "fix"), PROBLEMS)
@pytest.mark.parametrize(
    ("role", "argument"), [("target", "trigger_dag_id"), ("dead-letter DAG", "dead_letter_dag_id")]
)
def test_a_dag_that_cannot_run_has_its_fix(
    doctor: Doctor,
    database: Database,
    role: str,
    argument: str,
    columns: dict[str, Any] | None,
    status: str,
    said: str,
    fix: str,
) -> None:
    arguments = {"trigger_dag_id": "handle", "dead_letter_dag_id": "dead"}
    for dag_id in arguments.values():
        if dag_id != arguments[argument]:
            database.add_dag(dag_id)
        elif columns is not None:
            database.add_dag(dag_id, **columns)
    database.deploy(listening("listen", inbox="orders", **arguments))
    found = doctor.examine()[f"{role} {arguments[argument]}"]
    assert (found["status"], said in found["detail"], fix in found["fix"]) == (status, True, True)
    assert (f"{argument} of listen" in found["fix"]) is (said == "no such DAG")


@pytest.mark.parametrize(("columns", "status", "said", "fix"), PROBLEMS[:2])
def test_a_listener_that_cannot_run_has_its_fix(
    doctor: Doctor, database: Database, columns: dict[str, Any], status: str, said: str, fix: str
) -> None:
    database.add_dag("handle")
    database.deploy(listening("listen", inbox="orders", trigger_dag_id="handle"), **columns)
    found = doctor.examine()["listener listen"]
    assert (found["status"], said in found["detail"], fix in found["fix"]) == (status, True, True)


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


def test_an_inbox_may_be_named_by_its_id_in_one_place_and_by_its_name_in_another(
    doctor: Doctor, database: Database, orders: str
) -> None:
    database.add_dag("handle")
    database.deploy(listening("listen", inbox=orders, trigger_dag_id="handle"))
    for given in ((), ("--inbox", "orders"), ("--inbox", orders)):
        found = doctor.examine(None, *given)
        assert found["dags"]["detail"].endswith("listener listen, target handle")
        assert named(found, "listeners") == []


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


def test_dags_that_are_named_are_examined_too(doctor: Doctor, database: Database) -> None:
    database.add_dag("plain")
    found = doctor.examine(
        None, "--listener-dag-id", "plain", "--listener-dag-id", "nowhere", "--target-dag-id", "missing"
    )
    assert found.of("failed") == ["listener nowhere", "target missing"]
    assert found["dags"]["detail"].endswith("listener plain")
    assert found["listener nowhere"]["fix"] == "deploy it, or correct --listener-dag-id"
    assert found["target missing"]["fix"] == "deploy it, or correct --target-dag-id"
