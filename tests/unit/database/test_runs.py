"""Runs and DAGs in the metadata database: whose runs are found, and which fault is of one message alone."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from airflow import settings
from airflow.api.common import trigger_dag
from airflow.models.dagrun import DagRun
from airflow.sdk import DAG, BaseOperator, Param, task
from airflow.utils.session import create_session
from sqlalchemy import create_engine, select, text, update
from sqlalchemy.exc import DataError, IntegrityError, OperationalError

from airflow_provider_workflow.airflow_internals import create_dag_run, database_session, is_started_by_hand
from airflow_provider_workflow.database import dag_runs
from airflow_provider_workflow.database.dag_runs import (
    CLOCK_SKEW,
    DEAD_LETTER_ENTRIES,
    MAX_ENTRY_LENGTH,
    DatabaseRuns,
    MissingDagError,
    Selection,
    with_replays,
)
from airflow_provider_workflow.database.inbox_uses import inbox_uses
from airflow_provider_workflow.dispatch.run_errors import RunRejected, ServerFault, TargetError
from airflow_provider_workflow.dispatch.runs import DEAD_LETTER_PREFIX, Start
from tests.unit.cli.database import Database, listening, listening_mapped
from tests.unit.cli.dead_letter_runs import INBOX_ID, DeadLetterRuns
from tests.unit.cli.dead_letter_runs import start as start_run

RUN_ID = "workflow__a"
CONF = {"inbox_id": "i", "message": {"id": "a"}}
DEAD_LETTERS = Selection(DEAD_LETTER_PREFIX)


@pytest.mark.usefixtures("handle")
@pytest.mark.parametrize(
    ("triggered_by", "user", "is_ours"),
    [
        ("OPERATOR", None, True),
        ("OPERATOR", "bob", True),  # from Airflow 3.2.2 on: bob started the run whose task started this one
        ("CLI", None, True),
        ("CLI", "bob", False),  # airflow dags trigger
        ("REST_API", "bob", False),
        ("ASSET", None, False),
    ],
)
def test_only_runs_of_the_provider_are_found(triggered_by: str, user: str | None, is_ours: bool) -> None:
    create_dag_run("handle", RUN_ID, CONF, None, triggered_by=triggered_by, user=user)
    selection = Selection("workflow__")

    assert [
        bool(list(dag_runs.pages(selection, (), size=1))),
        bool(dag_runs.find_by_ids(selection, ("message_id",), [RUN_ID])),
        bool(dag_runs.runs_of({RUN_ID: "i"}, ["handle"])),
        RUNS.find("handle", RUN_ID, CONF) is Start.EXISTING,
    ] == [is_ours] * 4
    assert dag_runs.runs_of({RUN_ID: "another"}, ["handle"]) == {}


@pytest.mark.parametrize("newest_first", [True, False])
def test_pages_hold_each_run_once_even_if_all_started_at_once(
    dead_letter_runs: DeadLetterRuns, newest_first: bool
) -> None:
    run_ids = [dead_letter_runs.bury(f"m{number}") for number in range(7)]
    with create_session() as session:
        session.execute(update(DagRun).values(run_after=datetime(2026, 1, 1, tzinfo=UTC)))

    pages = dag_runs.pages(Selection("workflow__"), (), size=3, newest_first=newest_first)

    expected = list(reversed(run_ids)) if newest_first else run_ids
    assert [run.run_id for page in pages for run in page] == expected


@pytest.mark.parametrize(
    "read",
    [
        lambda: [
            list(with_replays(page)) for page in dag_runs.pages(DEAD_LETTERS, DEAD_LETTER_ENTRIES, size=10)
        ],
        lambda: dag_runs.find_by_ids(DEAD_LETTERS, DEAD_LETTER_ENTRIES, ["a"]),
        lambda: dag_runs.counts_by_dag(DEAD_LETTERS),
    ],
    ids=["list", "find", "count"],
)
def test_no_list_of_dead_letters_reads_the_conf_of_a_run(
    dead_letter_runs: DeadLetterRuns, read: Callable[[], object]
) -> None:
    dead_letter_runs.bury("a")
    start_run("a", INBOX_ID)
    whole_confs: list[str] = []
    bind: Any = settings.Session.session_factory.kw["bind"]
    engine = create_engine(bind.url, json_deserializer=whole_confs.append)
    settings.Session.remove()
    settings.Session.configure(bind=engine)

    assert read()

    assert whole_confs == []
    with database_session() as session:
        session.scalars(select(DagRun.conf)).all()
    assert len(whole_confs) == 2, "each conf that is read is noticed"


@pytest.mark.usefixtures("handle")
def test_a_run_is_found_although_the_clock_of_its_machine_is_slow() -> None:
    create_dag_run("handle", RUN_ID, CONF, None, triggered_by="CLI", user=None)
    started_at = datetime.now(UTC)

    def is_found(later: timedelta) -> bool:
        return bool(dag_runs.runs_of({RUN_ID: "i"}, [], since=started_at + later))

    assert is_found(timedelta(minutes=30))
    assert not is_found(CLOCK_SKEW + timedelta(minutes=1))


RUNS = DatabaseRuns()


@pytest.fixture
def handle(database: Database) -> Database:
    database.add_dag("handle")
    return database


@pytest.mark.usefixtures("handle")
def test_of_a_long_entry_of_a_conf_only_its_beginning_is_read() -> None:
    beginning = "a" * MAX_ENTRY_LENGTH
    RUNS.start("handle", RUN_ID, {"reason": beginning + "b"})

    (run,) = dag_runs.find_by_ids(Selection("workflow__"), ("reason",), [RUN_ID])

    assert run.conf == {"reason": beginning}


def test_a_run_is_that_of_its_message_and_of_no_other_message_or_inbox(handle: Database) -> None:
    conf = {"inbox_id": "i", "message": {"id": "a", "payload": {"text": "Grüße", "n": [1.5, None]}}}

    assert [RUNS.start("handle", RUN_ID, conf) for _ in range(2)] == [Start.STARTED, Start.EXISTING]
    for other in ({**conf, "inbox_id": "another"}, {**conf, "message": {"id": "b"}}, {"message_id": "a"}):
        with pytest.raises(RunRejected, match="workflow__a of the DAG 'handle' exists, and a user"):
            RUNS.start("handle", RUN_ID, other)
    assert handle.runs("handle") == {RUN_ID: conf}


def test_a_run_that_somebody_else_starts_at_the_same_moment_is_found(
    handle: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    RUNS.start("handle", "workflow__1", {})
    look, looks = DagRun.find_duplicate, []

    def too_early_at_first(**kwargs: Any) -> Any:
        looks.append(kwargs)
        return None if len(looks) == 1 else look(**kwargs)

    monkeypatch.setattr(DagRun, "find_duplicate", too_early_at_first)
    monkeypatch.setattr("tenacity.nap.time.sleep", lambda seconds: None)

    assert RUNS.start("handle", "workflow__1", {}) is Start.EXISTING
    assert len(looks) == 2


def test_a_conf_or_a_run_id_that_is_refused_is_of_one_message(database: Database) -> None:
    database.add_dag("strict", params={"x": Param(type="integer")})

    with pytest.raises(RunRejected, match="param x"):
        RUNS.start("strict", "workflow__1", {"x": "no number"})
    with pytest.raises(RunRejected, match="ValueError"):
        RUNS.start("strict", "no run id ..", {"x": 1})
    assert RUNS.start("strict", "workflow__2", {"x": 1}) is Start.STARTED


def of(kind: Any, **more: Any) -> Exception:
    error: Exception = kind("statement", {}, ValueError("made up"), **more)
    return error


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (of(DataError), RunRejected),
        (TypeError("made up"), RunRejected),
        (of(OperationalError), ServerFault),
        (of(IntegrityError), ServerFault),
        (of(OperationalError, connection_invalidated=True), TargetError),
    ],
)
def test_a_fault_of_the_database_is_of_one_message_or_of_everything(
    handle: Database, monkeypatch: pytest.MonkeyPatch, error: Exception, kind: type[Exception]
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(trigger_dag, "trigger_dag", fail)
    monkeypatch.setattr("tenacity.nap.time.sleep", lambda seconds: None)

    with pytest.raises(kind) as error_info:
        RUNS.start("handle", "workflow__1", {"message": "payload-of-this-test"})

    assert type(error_info.value) is kind
    assert "payload-of-this-test" not in str(error_info.value)
    assert "statement" not in str(error_info.value)


def test_a_locked_database_is_tried_again(handle: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    start, faults = trigger_dag.trigger_dag, [of(OperationalError), of(OperationalError)]

    def sometimes(*args: Any, **more: Any) -> Any:
        if faults:
            raise faults.pop()
        return start(*args, **more)

    monkeypatch.setattr(trigger_dag, "trigger_dag", sometimes)
    monkeypatch.setattr("tenacity.nap.time.sleep", lambda seconds: None)

    assert RUNS.start("handle", "workflow__1", {}) is Start.STARTED


@pytest.mark.parametrize("check", [RUNS.check_target, lambda dag_id: RUNS.start(dag_id, "workflow__1", {})])
def test_a_missing_dag_is_found_out(database: Database, check: Any) -> None:
    with pytest.raises(MissingDagError, match=r"'missing' was not found\. .*no message is lost"):
        check("missing")


RUN_TYPES = pytest.mark.since(3, 3, "the run types that a DAG allows")


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ({"is_stale": True}, "was not found"),
        ({"has_import_errors": True}, "has import errors"),
        pytest.param({"allowed_run_types": ["scheduled"]}, "manual", marks=RUN_TYPES),
    ],
)
def test_a_paused_dag_is_a_good_target_and_one_that_cannot_run_is_none(
    handle: Database, columns: dict[str, Any], reason: str
) -> None:
    handle.change("handle", is_paused=True)
    RUNS.check_target("handle")
    assert handle.runs("handle") == {}
    assert RUNS.start("handle", "workflow__1", {}) is Start.STARTED
    handle.change("handle", **columns)

    with pytest.raises(TargetError, match=reason):
        RUNS.check_target("handle")


def test_a_database_that_is_not_migrated_is_said_to_be(database: Database) -> None:
    with create_session() as session:
        session.execute(text("DROP TABLE serialized_dag"))
        session.execute(text("ALTER TABLE dag_run RENAME TO gone"))
        session.execute(text("ALTER TABLE dag RENAME TO gone_too"))

    for ask in (
        RUNS.check_target,
        RUNS.unfinished,
        lambda dag_id: RUNS.find(dag_id, "workflow__1", {}),
        lambda dag_id: list(dag_runs.pages(Selection("workflow__", (dag_id,)), (), size=1)),
    ):
        with pytest.raises(TargetError, match=r"unreachable, or not migrated: OperationalError\."):
            ask("handle")


def test_runs_are_counted(handle: Database) -> None:
    handle.add_dag("other")
    RUNS.start("other", "workflow__1", {})
    RUNS.start("handle", "workflow__1", {})
    assert RUNS.unfinished("handle") == 1
    assert RUNS.find("handle", "workflow__1", {})
    assert not RUNS.find("handle", "workflow__2", {})

    RUNS.start("handle", "workflow__2", {})
    assert RUNS.unfinished("handle") == 2
    handle.end_runs("handle")
    assert (RUNS.unfinished("handle"), RUNS.unfinished("other"), RUNS.unfinished("unknown")) == (0, 1, 0)


def test_the_dead_letter_dag_of_a_listener_is_known_unless_it_is_a_template(database: Database) -> None:
    for dag_id, dead_letters in (("a", "dead"), ("b", "{{ var.value.dead }}"), ("c", None)):
        database.deploy(
            listening(dag_id, inbox="orders", trigger_dag_id="handle", dead_letter_dag_id=dead_letters)
        )

    with database_session() as session:
        uses = {use.dag_id: use.dead_letter_dag_id for use in inbox_uses(session)}

    assert uses == {"a": "dead", "b": None, "c": None}


CONN_ID, DEFAULT_CONN_ID = {"workflow_conn_id": "c"}, {"workflow_conn_id": "workflow_default"}
NAMES = {"inbox": "orders", "trigger_dag_id": "handle", "dead_letter_dag_id": "dead"}


@pytest.mark.parametrize(
    ("arguments", "known"),
    [
        ({"expanded": [{}], **NAMES}, ("workflow_default", "orders", ("handle",), "dead")),
        ({"expanded": [{}, CONN_ID], **NAMES}, (None, "orders", ("handle",), "dead")),
        ({"expanded": [NAMES], **CONN_ID}, ("c", None, (), None)),
        ({"expanded": [{"match": "workflow_conn_id", "pool": "p"}]}, ("workflow_default", None, (), None)),
        ({"expanded": None, **NAMES}, (None, "orders", ("handle",), "dead")),
        ({"expanded": None, **NAMES, **CONN_ID}, ("c", "orders", ("handle",), "dead")),
        ({"expanded": None, **NAMES, **CONN_ID, "is_strict": False}, (None, None, (), None)),
        ({"expanded": None, "default_args": {**NAMES, **CONN_ID}}, (None, None, (), None)),
        ({"expanded": [{}], "default_args": {**NAMES, **CONN_ID}}, ("c", "orders", ("handle",), "dead")),
        (
            {"expanded": [{}], **DEFAULT_CONN_ID, "default_args": CONN_ID},
            ("workflow_default", None, (), None),
        ),
    ],
)
def test_an_argument_of_a_mapped_task_is_known_unless_its_expansion_may_give_it(
    database: Database, arguments: dict[str, Any], known: tuple[Any, ...]
) -> None:
    database.deploy(listening_mapped("listen", **arguments))

    with database_session() as session:
        (use,) = inbox_uses(session)

    assert (use.conn_id, use.inbox, use.targets, use.dead_letter_dag_id) == known


def test_the_expansion_of_a_batch_task_gives_arguments_of_its_function(database: Database) -> None:
    with DAG("listen", schedule=None) as dag:

        @task.workflow_inbox(inbox="orders")
        def work(messages: list[Any], workflow_conn_id: str) -> None: ...

        work.expand_kwargs(BaseOperator(task_id="list").output)
    database.deploy(dag)

    with database_session() as session:
        (use,) = inbox_uses(session)

    assert (use.conn_id, use.inbox) == ("workflow_default", "orders")


@pytest.mark.since(3, 3, "a type of its own for runs that tasks start,")
def test_a_replay_on_the_page_is_not_taken_for_a_run_that_its_user_made_up(handle: Database) -> None:
    DatabaseRuns("jane").start("handle", "workflow__m1", {})
    with create_session() as session:
        run = session.scalar(select(DagRun).where(DagRun.run_id == "workflow__m1"))
        assert not is_started_by_hand(run)
