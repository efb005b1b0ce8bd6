"""``doctor`` on the metadata database: triggerers, the DAGs that listen, and the DAGs that they start."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from airflow import settings
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, AssetWatcher
from airflow.utils.net import get_hostname
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
    assert found.of("skipped") == ["database", "triggerer", "clocks", "dags"]
    assert found["database"]["detail"] == (
        "Airflow's metadata database cannot be read from here: OperationalError"
    )
    assert found["database"]["fix"].endswith("run doctor where airflow db check succeeds")
    assert "marked-password" not in found.shown


def test_a_database_that_is_not_migrated_is_skipped_too(
    doctor: Doctor, tmp_path: Path, database: Database
) -> None:
    settings.Session.remove()
    settings.Session.configure(bind=create_engine(f"sqlite:///{tmp_path}/empty.db"))
    assert doctor.examine().of("skipped") == ["database", "triggerer", "clocks", "dags"]


def test_a_living_triggerer_is_reported_with_its_last_heartbeat(doctor: Doctor, database: Database) -> None:
    database.add_triggerer(seconds_ago=3600)
    database.add_triggerer(seconds_ago=-60)  # a clock that is ahead
    found = doctor.examine()["triggerer"]
    assert (found["status"], found["detail"]) == (
        "ok",
        "1 triggerer is alive; the last heartbeat is 0 s old",
    )
    database.add_triggerer(seconds_ago=-60)
    assert doctor.examine()["triggerer"]["detail"].startswith("2 triggerers are alive")


def test_clocks_that_differ_little_are_not_reported(doctor: Doctor, database: Database) -> None:
    database.add_triggerer(seconds_ago=-20)
    database.add_dag("listen")
    database.add_queued_run("listen", seconds_ahead=20)
    database.add_queued_run("listen", seconds_ahead=3600, run_type="manual")
    assert named(doctor.examine(), "clocks") == []


@pytest.mark.parametrize("kind", ["TriggererJob", "SchedulerJob"])
def test_a_heartbeat_in_the_future_is_the_clock_of_its_machine(
    doctor: Doctor, database: Database, kind: str
) -> None:
    """Until then Airflow takes a dead triggerer for alive, and gives its triggers to no other."""
    database.add_triggerer(seconds_ago=-3700, kind=kind)
    found = doctor.examine()["clocks"]
    assert found["status"] == "warning"
    process = kind.removesuffix("Job").lower()
    assert found["detail"] == f"the last heartbeat of the {process} on {get_hostname()} is 1 h in the future"
    assert found["fix"].startswith("synchronize the clocks of all machines (NTP), this one included")
    assert "Airflow takes it for alive until then" in found["fix"]


def test_a_run_that_was_queued_for_later_waits_for_that_time(doctor: Doctor, database: Database) -> None:
    """The event of a triggerer whose clock was ahead made it."""
    database.add_dag("listen")
    database.add_queued_run("listen", seconds_ahead=3700)
    found = doctor.examine()["clocks"]
    assert found["status"] == "warning"
    assert found["detail"] == "queued runs of listen: 1, of which the first starts in 1 h"
    assert "airflow dags trigger listen" in found["fix"]


@pytest.mark.parametrize(
    ("job", "said"),
    [
        (None, "none has ever used this database"),
        ({"seconds_ago": 7300}, "the last heartbeat is 2 h old"),
        ({"seconds_ago": 0, "state": "success"}, "the last heartbeat is 0 s old"),
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
    assert found["triggerer"]["detail"] == f"no triggerer is alive: {said}"
    database.add_trigger(OURS)
    found = doctor.examine()
    assert found.of("failed") == ["triggerer"]
    assert found["triggerer"]["detail"].endswith("; 1 trigger of this provider cannot run")
    assert found["triggerer"]["fix"] == "start one: airflow triggerer"


def test_listener_and_target_are_found_and_described(doctor: Doctor, database: Database) -> None:
    database.deploy(listening("listen", inbox="orders", trigger_dag_id={"a": "`true`", "b": "id"}))
    database.add_dag("a")
    database.add_dag("b")
    database.add_dag("unrelated")
    found = doctor.examine()
    assert found["listener listen"]["status"] == "ok"
    assert found["listener listen"]["detail"] == (
        "unpaused: task listen (WorkflowInboxSensor), inbox orders, starts a, b"
    )
    assert [found[f"target {name}"]["status"] for name in ("a", "b")] == ["ok", "ok"]
    assert (named(found, "listener"), named(found, "target")) == (
        ["listener listen"],
        ["target a", "target b"],
    )
    assert named(found, "listeners") == []


def test_the_newest_version_of_a_dag_counts(doctor: Doctor, database: Database) -> None:
    database.deploy(listening("listen", inbox="orders", trigger_dag_id="before"))
    database.add_dag("after")
    database.deploy(listening("listen", inbox="orders", trigger_dag_id="after"))
    assert named(doctor.examine(), "target") == ["target after"]


@pytest.mark.parametrize(
    ("columns", "status", "said", "fix"),
    [
        (
            {"is_paused": True},
            "warning",
            "paused, so it starts no runs",
            "airflow dags unpause listen",
        ),
        ({"has_import_errors": True}, "failed", "import errors", "airflow dags list-import-errors"),
    ],
)
def test_a_listener_that_cannot_run_has_its_fix(
    doctor: Doctor, database: Database, columns: dict[str, Any], status: str, said: str, fix: str
) -> None:
    database.add_dag("handle")
    database.deploy(listening("listen", inbox="orders", trigger_dag_id="handle"), **columns)
    found = doctor.examine()["listener listen"]
    assert (found["status"], said in found["detail"], fix in found["fix"]) == (status, True, True)


@pytest.mark.parametrize(
    ("columns", "status", "said", "fix"),
    [
        ({"is_paused": True}, "warning", "its runs stay queued", "airflow dags unpause handle"),
        ({"has_import_errors": True}, "failed", "import errors", "airflow dags list-import-errors"),
        (
            {"is_stale": True},
            "failed",
            "no DAG 'handle', which listen would start",
            "trigger_dag_id of listen",
        ),
        (None, "failed", "no DAG 'handle', which listen would start", "trigger_dag_id of listen"),
    ],
)
def test_a_target_that_cannot_run_has_its_fix(
    doctor: Doctor,
    database: Database,
    columns: dict[str, Any] | None,
    status: str,
    said: str,
    fix: str,
) -> None:
    if columns is not None:
        database.add_dag("handle", **columns)
    database.deploy(listening("listen", inbox="orders", trigger_dag_id="handle"))
    found = doctor.examine()["target handle"]
    assert (found["status"], said in found["detail"], fix in found["fix"]) == (status, True, True)


@pytest.mark.parametrize(
    ("active", "parallelism", "pools", "status"),
    [
        (5, "4", ["default_pool"], "warning"),
        (5, "4", ["own", "default_pool"], "warning"),
        (5, "4", ["own"], "ok"),
        (4, "4", ["default_pool"], "ok"),
        (500, "0", ["default_pool"], "ok"),
    ],
)
def test_a_target_with_more_active_runs_than_slots_may_delay_other_dags(
    doctor: Doctor,
    database: Database,
    monkeypatch: pytest.MonkeyPatch,
    active: int,
    parallelism: str,
    pools: list[str],
    status: str,
) -> None:
    monkeypatch.setenv("AIRFLOW__CORE__PARALLELISM", parallelism)
    with DAG("handle", schedule=None, max_active_runs=active) as dag:
        for number, pool in enumerate(pools):
            EmptyOperator(task_id=f"step_{number}", pool=pool)
    database.deploy(dag)
    database.deploy(listening("listen", inbox="orders", trigger_dag_id="handle"))
    found = doctor.examine()["target handle"]
    assert found["status"] == status
    if status == "warning":
        assert "5 of its runs may be active at once" in found["detail"]
        assert "lower max_active_runs of handle" in found["fix"]


def test_a_dag_of_another_connection_or_inbox_is_none_of_these(doctor: Doctor, database: Database) -> None:
    database.deploy(listening("other_conn", inbox="orders", workflow_conn_id="other", trigger_dag_id="x"))
    database.deploy(listening("other_inbox", inbox="invoices", trigger_dag_id="y"))
    database.deploy(listening("gone", inbox="orders", trigger_dag_id="z"), is_stale=True)
    found = doctor.examine(None, "--inbox", "orders")
    assert (named(found, "listener"), named(found, "target")) == ([], [])
    assert found["listeners"]["status"] == "warning"
    assert found["listeners"]["detail"] == (
        "no DAG of this Airflow uses the connection workflow_default and inbox orders"
    )
    found = doctor.examine()
    assert named(found, "listener") == ["listener other_inbox"]
    assert found["listeners of orders"]["detail"] == "no DAG of this Airflow listens to it"
    assert "WorkflowInboxSensor" in found["listeners of orders"]["fix"]


def test_an_inbox_may_be_named_by_its_id_in_one_place_and_by_its_name_in_another(
    doctor: Doctor, database: Database, orders: str
) -> None:
    database.deploy(listening("listen", inbox=orders, trigger_dag_id="handle"))
    for given in ((), ("--inbox", "orders"), ("--inbox", orders)):
        found = doctor.examine(None, *given)
        assert named(found, "listener") == ["listener listen"]
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
    assert found["listener many"]["detail"] == (
        "unpaused: task own (Ours), inbox known only at run time;"
        " task each (WorkflowInboxDispatchOperator), inbox known only at run time, starts handle"
    )
    assert named(found, "target") == ["target handle"]
    assert named(found, "listeners") == [], "it may be the listener of any inbox"


def test_a_dag_that_is_scheduled_on_a_watched_asset_is_found(doctor: Doctor, database: Database) -> None:
    trigger = WorkflowInboxNoticeTrigger(inbox="orders")
    asset = create_asset(inbox="orders", watchers=[AssetWatcher(name="orders", trigger=trigger)])
    other = create_asset(inbox="else")
    database.deploy(DAG("noticed", schedule=(asset & other), start_date=datetime(2025, 1, 1)))
    assert doctor.examine()["listener noticed"]["detail"] == (
        "unpaused: asset watcher orders (WorkflowInboxNoticeTrigger), inbox orders"
    )


def test_dags_that_are_named_are_examined_too(doctor: Doctor, database: Database) -> None:
    database.add_dag("plain")
    found = doctor.examine(
        None, "--listener-dag-id", "plain", "--listener-dag-id", "nowhere", "--target-dag-id", "missing"
    )
    assert found.of("failed") == ["listener nowhere", "target missing"]
    assert found["listener plain"]["status"] == "warning"
    assert "without a task or asset watcher of this provider" in found["listener plain"]["detail"]
    assert "--listener-dag-id" in found["listener nowhere"]["fix"]
    assert found["target missing"]["fix"] == "deploy it, or correct --target-dag-id"


def test_compressed_serialized_dags_are_read(doctor: Doctor, database: Database) -> None:
    database.add_dag("plain")
    database.deploy(listening("listen", inbox="orders", trigger_dag_id="handle"))
    database.compress_dags()
    assert named(doctor.examine(), "target") == ["target handle"]


def test_every_finding_that_is_not_ok_has_a_fix_in_one_line(doctor: Doctor, database: Database) -> None:
    database.deploy(listening("listen", inbox="orders", trigger_dag_id="handle"), is_paused=True)
    doctor.emulator.open_inbox("invoices")
    found = doctor.examine()
    kinds = ("triggerer", "listener", "target", "listeners")
    ours = [each for each in found.findings if each["check"].split()[0] in kinds]
    assert len(ours) == 4
    assert all(each["fix"] and "\n" not in each["fix"] for each in ours)
