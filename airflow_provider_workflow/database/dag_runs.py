"""
DAG runs, and dead letters among them, in Airflow's metadata database.

A user who may start runs of a DAG by hand chooses their ids and confs, and could imitate the run of a message
or a dead letter. So only runs that a task, a command of this provider or its page started are read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from airflow_provider_workflow import airflow_internals
from airflow_provider_workflow.dispatch.run_errors import RunRejected, ServerFault, TargetError, param_of
from airflow_provider_workflow.dispatch.runs import UNFINISHED, Start, existing_start, not_its_run
from airflow_provider_workflow.text import ascii_of

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from airflow_provider_workflow.dispatch.replay import Replay

Entry = str | tuple[str, ...]
"""An entry of a conf: its name, or for a nested one the names that lead to it."""
MESSAGE_ID = ("message", "id")
"""The entry of a message's run that has the id of the message."""
DEAD_LETTER_ENTRIES = (
    *("message_id", "connection_id", "inbox_id", "inbox_name", "created_at", "delivery_count"),
    *("reason", "cause", "target_dag_id", "target_run_id"),
)
"""The entries of a dead letter's conf, except its message."""
MAX_ENTRY_LENGTH = 5_000
"""Maximum number of characters that are read of an entry. Those of a dead letter are shorter."""
MAX_CONF_BYTES = 1_000_000
"""Lists do not read a conf that is stored with more bytes: a sender chooses how large its messages are."""
MAX_PAGE_SIZE = 500
"""Maximum number of runs, and of ids, of a query; some databases limit the number of values in one."""
MAX_QUERIES_OF_STATEMENT = 100
"""Maximum number of queries that one statement unites; SQLite allows 500."""
CLOCK_SKEW = timedelta(hours=1)
"""How far apart the clocks of the machines that start runs may be."""


class StoredRun(NamedTuple):
    """
    A DAG run.

    :param key: its primary key.
    :param run_after: when it was started.
    :param triggered_by: ``operator`` if a task or the page started it, ``cli`` for a command.
    :param user: the user of the page who started it, or the one who started the run whose task did; None if
        Airflow knows none.
    :param is_large: whether its conf is larger than ``MAX_CONF_BYTES``.
    :param conf: the requested entries of its conf, as strings; None for those that it lacks.
    """

    key: int
    dag_id: str
    run_id: str
    state: str
    run_after: datetime
    triggered_by: str
    user: str | None
    is_large: bool
    conf: dict[Entry, str | None]


def int_or_none(entry: str | None) -> int | None:
    """The number in an entry of a conf; None if it is anything else, as who starts a run chooses its conf."""
    return int(entry) if entry is not None and re.fullmatch("[0-9]{1,9}", entry) else None


@dataclass(frozen=True)
class Selection:
    """
    Selects the DAG runs for which all of this holds.

    :param prefix: the beginning of their ids.
    :param dag_ids: only runs of these DAGs; None for all DAGs.
    :param since: only runs that were started then or later.
    :param until: only runs that were started then or before.
    :param conf: only runs whose conf has this string in this entry.
    :param is_large: only runs whose conf is larger than ``MAX_CONF_BYTES``, or is not; None for any size.
    """

    prefix: str
    dag_ids: tuple[str, ...] | None = None
    since: datetime | None = None
    until: datetime | None = None
    conf: Mapping[str, str] = field(default_factory=dict)
    is_large: bool | None = None


def not_started_by_hand() -> Any:
    """
    The condition that a task, a command of this provider or its page started a run.

    A user name shows a run that was started by hand only among those of commands: ``airflow dags trigger``
    always stores one, and the commands of this provider do not. Tasks and the page may store one too.
    """
    from sqlalchemy import and_, or_

    run = airflow_internals.dag_run_model()
    by_command = and_(run.triggered_by == "CLI", run.triggering_user_name.is_(None))
    return or_(run.triggered_by == "OPERATOR", by_command)


def pages(
    selection: Selection, entries: tuple[Entry, ...], *, size: int, newest_first: bool = True
) -> Iterator[list[StoredRun]]:
    """
    The selected runs, page by page, in the order in which they were started.

    :param entries: the entries of the conf to read.
    :param size: runs of a page, at most ``MAX_PAGE_SIZE``.
    :raises TargetError: the database is unreachable.
    """
    from sqlalchemy import tuple_

    run, conditions = airflow_internals.dag_run_model(), _conditions(selection)
    position = tuple_(run.run_after, run.id)
    after: list[Any] = []
    conf_conditions = partial(_conf_conditions, selection)
    order: dict[str, Any] = {"newest_first": newest_first, "size": size}
    while page := _read(
        [*conditions, *after], entries, conf_conditions, selection.is_large is False, **order
    ):
        yield page
        if len(page) < size:
            return
        last = (page[-1].run_after, page[-1].key)
        after = [position < last if newest_first else position > last]


def find_by_ids(selection: Selection, entries: tuple[Entry, ...], ids: Collection[str]) -> list[StoredRun]:
    """
    The selected runs that have one of these ids, or whose conf has one of them as ``message_id``.

    :raises TargetError: the database is unreachable.
    """
    from sqlalchemy import or_

    names, conditions = list(ids), _conditions(selection)
    runs: list[StoredRun] = []
    for start in range(0, len(names), MAX_PAGE_SIZE):
        some = names[start : start + MAX_PAGE_SIZE]

        def conf_conditions(rows: Any, some: list[str] = some) -> list[Any]:
            own = or_(rows.run_id.in_(some), rows.conf["message_id"].as_string().in_(some))
            return [*_conf_conditions(selection, rows), own]

        runs += _read(conditions, entries, conf_conditions)
    return runs


def counts_by_dag(selection: Selection) -> dict[str, int]:
    """
    How many of the selected runs each DAG has.

    :raises TargetError: the database is unreachable.
    """
    from sqlalchemy import func, select

    with database() as session:
        rows = _rows(session, _conditions(selection), selection.is_large is False)
        counts = select(rows.dag_id, func.count()).where(*_conf_conditions(selection, rows))
        return dict(session.execute(counts.group_by(rows.dag_id)).all())


def _conditions(selection: Selection) -> list[Any]:
    """The conditions on everything but the conf."""
    run = airflow_internals.dag_run_model()
    conditions = [not_started_by_hand(), run.run_id.startswith(selection.prefix, autoescape=True)]
    if selection.dag_ids is not None:
        conditions.append(run.dag_id.in_(selection.dag_ids))
    if selection.since is not None:
        conditions.append(run.run_after >= selection.since)
    if selection.until is not None:
        conditions.append(run.run_after <= selection.until)
    return conditions


def _conf_conditions(selection: Selection, rows: Any) -> list[Any]:
    conditions = [rows.conf[name].as_string() == value for name, value in selection.conf.items()]
    if selection.is_large is not None:
        conditions.append(rows.is_large if selection.is_large else ~rows.is_large)
    return conditions


def _rows(session: Session, conditions: list[Any], omit_large_confs: bool) -> Any:
    """
    The columns of a subquery: runs with their confs. The database reads each conf once, for all its entries.

    SQLite and MySQL do so by themselves. PostgreSQL would decompress a stored conf again for each condition
    and each entry. ``conf || '{}'`` is a computed value instead, and ``OFFSET 0`` lets PostgreSQL compute it
    before the outer query.

    :param omit_large_confs: whether a conf that is larger than ``MAX_CONF_BYTES`` is NULL.
    """
    from sqlalchemy import case, func, literal, select
    from sqlalchemy.dialects.postgresql import JSONB

    run = airflow_internals.dag_run_model()
    is_postgres = session.get_bind().dialect.name == "postgresql"
    size = func.pg_column_size if is_postgres else func.length
    is_large = size(run.conf) > MAX_CONF_BYTES
    conf = case((~is_large, run.conf)) if omit_large_confs else run.conf
    if is_postgres:
        conf = conf.op("||", return_type=JSONB())(literal({}, JSONB()))
    starter = (run.triggered_by, run.triggering_user_name)
    columns = (run.id, run.dag_id, run.run_id, run.state, run.run_after, *starter)
    rows = select(*columns, is_large.label("is_large"), conf.label("conf")).where(*conditions)
    return (rows.offset(0) if is_postgres else rows).subquery().c


def _read(
    conditions: list[Any],
    entries: tuple[Entry, ...],
    conf_conditions: Callable[[Any], list[Any]] = lambda _: [],
    omit_large_confs: bool = False,
    *,
    newest_first: bool = True,
    size: int | None = None,
) -> list[StoredRun]:
    """
    Read runs.

    :param conditions: the conditions on all but the conf.
    :param conf_conditions: makes the conditions on the conf, of the columns of ``_rows``.
    :param omit_large_confs: see ``_rows``.
    :param size: maximum number of runs; None for all.
    """
    from sqlalchemy import select

    with database() as session:
        rows = _rows(session, conditions, omit_large_confs)
        columns = (rows.id, rows.dag_id, rows.run_id, rows.state, rows.run_after)
        starter = (rows.triggered_by, rows.triggering_user_name, rows.is_large)
        read = select(*columns, *starter, *(rows.conf[name].as_string() for name in entries))
        order = [column.desc() if newest_first else column.asc() for column in (rows.run_after, rows.id)]
        stored = session.execute(read.where(*conf_conditions(rows)).order_by(*order).limit(size)).all()
    return [_stored(row, entries) for row in stored]


def _stored(row: Any, entries: tuple[Entry, ...]) -> StoredRun:
    key, dag_id, run_id, state, run_after, triggered_by, user, is_large, *values = row
    # ``str``, as SQLite returns a number in a conf as a number.
    conf = {
        name: None if value is None else str(value)[:MAX_ENTRY_LENGTH]
        for name, value in zip(entries, values, strict=True)
    }
    starter = (triggered_by.value, user)
    return StoredRun(key, dag_id, run_id, str(state), run_after, *starter, bool(is_large), conf)


def whole_conf(key: int) -> dict[str, Any]:
    """
    The conf of a run; empty if the run was deleted.

    :param key: its primary key.
    :raises TargetError: the database is unreachable.
    """
    from sqlalchemy import select

    run = airflow_internals.dag_run_model()
    with database() as session:
        conf = session.scalar(select(run.conf).where(run.id == key))
    return conf if isinstance(conf, dict) else {}


def runs_of(
    inbox_ids: Mapping[str, str],
    dag_ids: Collection[str],
    since: datetime | None = None,
    *,
    omit_large_confs: bool = False,
) -> dict[str, list[StoredRun]]:
    """
    The runs with these ids whose confs name these inboxes, by run id.

    :param inbox_ids: the id of the inbox for each run id; at most 1,000.
    :param dag_ids: the DAGs in which the runs are searched.
    :param since: if given, runs of all other DAGs are found too, if they were started then or later.
    :param omit_large_confs: whether a conf that is larger than ``MAX_CONF_BYTES`` is not read. Its run is
        found by the id alone, which contains a hash of inbox and message.
    :raises TargetError: the database is unreachable.
    """
    from sqlalchemy import or_

    run = airflow_internals.dag_run_model()
    place = run.dag_id.in_(list(dag_ids))
    if since is not None:
        place = or_(place, run.run_after >= since - CLOCK_SKEW)
    conditions = [not_started_by_hand(), run.run_id.in_(list(inbox_ids)), place]
    runs: dict[str, list[StoredRun]] = {}
    for stored in _read(conditions, ("inbox_id", MESSAGE_ID), omit_large_confs=omit_large_confs):
        if (omit_large_confs and stored.is_large) or stored.conf["inbox_id"] == inbox_ids[stored.run_id]:
            runs.setdefault(stored.run_id, []).append(stored)
    return runs


def dags_of_message(replay: Replay, since: datetime) -> list[str]:
    """
    The DAGs in which the message of a dead letter has its run, or another one with its business key has it.

    :param replay: the replay of the dead letter.
    :param since: when the dead letter was started. A run before that is found only in the target.
    :raises TargetError: the database is unreachable.
    """
    targets = () if replay.target_dag_id is None else (replay.target_dag_id,)
    runs = runs_of({replay.run_id: replay.conf["inbox_id"]}, targets, since)
    return [run.dag_id for run in runs.get(replay.run_id, ())]


def failing_since(dag_ids: Collection[str]) -> dict[str, datetime]:
    """
    Since when DAGs fail: the end of the first failed run after the last successful one, by DAG.

    DAGs without such a run are left out.

    :raises TargetError: the database is unreachable.
    """
    from sqlalchemy import func, or_, select

    run = airflow_internals.dag_run_model()
    of_dags = run.dag_id.in_(list(dag_ids))
    last_end = func.max(run.end_date).label("end")
    success = select(run.dag_id, last_end).where(of_dags, run.state == "success")
    last = success.group_by(run.dag_id).subquery()
    failed = select(run.dag_id, func.min(run.end_date)).outerjoin(last, last.c.dag_id == run.dag_id)
    is_later = or_(last.c.end.is_(None), run.end_date > last.c.end)
    with database() as session:
        rows = session.execute(failed.where(of_dags, run.state == "failed", is_later).group_by(run.dag_id))
        return {dag_id: time for dag_id, time in rows if time is not None}


class EndedRun(NamedTuple):
    """
    A DAG run that has ended.

    :param state: ``success`` or ``failed``.
    :param ended_at: None if Airflow does not know it.
    :param failed_task: id and map index of its first task that failed; None if none did.
    """

    run_id: str
    state: str
    ended_at: datetime | None
    failed_task: tuple[str, int] | None = None


def last_ended(dag_ids: Collection[str]) -> dict[str, EndedRun]:
    """
    The last run of each DAG that has ended, in the order in which runs are due; a later one may be running.

    :raises TargetError: the database is unreachable.
    """
    from sqlalchemy import select, tuple_

    run, task = airflow_internals.dag_run_model(), airflow_internals.task_instance_model()
    columns = (run.dag_id, run.run_id, run.state, run.end_date)
    with database() as session:
        keys = _last_ended_keys(session, sorted(dag_ids))
        runs = {
            dag_id: EndedRun(*row)
            for dag_id, *row in session.execute(select(*columns).where(run.id.in_(keys)))
        }
        failed = [(dag_id, last.run_id) for dag_id, last in runs.items() if last.state == "failed"]
        of_runs = tuple_(task.dag_id, task.run_id).in_(failed)
        tasks = select(task.dag_id, task.task_id, task.map_index).where(of_runs, task.state == "failed")
        first_comes_last = (task.end_date.desc(), task.map_index.desc())
        for dag_id, *failed_task in session.execute(tasks.order_by(*first_comes_last)).all():
            runs[dag_id] = runs[dag_id]._replace(failed_task=tuple(failed_task))
    return {dag_id: last._replace(state=str(last.state)) for dag_id, last in runs.items()}


def _last_ended_keys(session: Session, dag_ids: list[str]) -> list[int]:
    """
    The primary keys of the last run of each DAG that has ended.

    A query for each DAG, with its id as a value, lets PostgreSQL choose an index by how many runs that DAG
    has: of 300,000 runs of 60 DAGs it finds the last ones in 7 ms, and in 600 ms with one query for all ids.
    """
    from sqlalchemy import select, union_all

    run = airflow_internals.dag_run_model()
    keys: list[int] = []
    for start in range(0, len(dag_ids), MAX_QUERIES_OF_STATEMENT):
        of_dags = []
        for dag_id in dag_ids[start : start + MAX_QUERIES_OF_STATEMENT]:
            ended = select(run.id).where(run.dag_id == dag_id, run.state.in_(("success", "failed")))
            last = ended.order_by(run.run_after.desc(), run.id.desc()).limit(1).subquery()
            of_dags.append(select(last.c.id))
        keys.extend(session.scalars(union_all(*of_dags)))
    return keys


@dataclass(frozen=True)
class StoredDeadLetter:
    """
    A dead letter, without its message.

    :param run: its own run, of the dead-letter DAG.
    :param replays: the runs that replay it.
    """

    run: StoredRun
    replays: list[StoredRun]

    @property
    def replay_run_id(self) -> str:
        """The id that each of its replays has; "" if its conf has none."""
        return self.run.conf["target_run_id"] or ""

    @property
    def message_id(self) -> str:
        """The id of its message, in printable characters; the id of its run if its conf has none."""
        return self.run.conf["message_id"] or self.run.run_id


def with_replays(page: list[StoredRun], *, omit_large_confs: bool = False) -> Iterator[StoredDeadLetter]:
    """
    The dead letters of some runs, with the runs that replay them.

    :param omit_large_confs: see ``runs_of``.
    """
    for start in range(0, len(page), MAX_PAGE_SIZE):
        letters = [StoredDeadLetter(run, []) for run in page[start : start + MAX_PAGE_SIZE]]
        inbox_ids = {letter.replay_run_id: letter.run.conf["inbox_id"] or "" for letter in letters}
        targets = {target for letter in letters if (target := letter.run.conf["target_dag_id"])}
        since = min(letter.run.run_after for letter in letters)
        replays = runs_of(inbox_ids, targets, since, omit_large_confs=omit_large_confs)
        for letter in letters:
            # Messages with one business key share a run id, so the ids of the messages are compared too.
            letter.replays.extend(
                run
                for run in replays.get(letter.replay_run_id, [])
                if ascii_of(run.conf[MESSAGE_ID] or "") == letter.run.conf["message_id"]
            )
        yield from letters


@contextmanager
def database() -> Iterator[Session]:
    """
    A session for queries.

    :raises TargetError: the database is unreachable, or not migrated.
    """
    from sqlalchemy.exc import SQLAlchemyError

    try:
        with airflow_internals.database_session() as session:
            yield session
    except SQLAlchemyError as error:
        raise unreachable(error) from None


def unreachable(error: Exception) -> TargetError:
    """The error of a database that does not answer, or has no tables."""
    return TargetError(
        "Airflow's metadata database is unreachable, or not migrated:"
        f" {type(error).__name__}. Check it with: airflow db check"
    )


class MissingDagError(TargetError):
    """The target DAG does not exist."""

    def __init__(self, dag_id: str, argument: str = "trigger_dag_id") -> None:
        super().__init__(
            f"The DAG {dag_id!r} was not found. Deploy it, or give another {argument}; no message is lost."
        )


@dataclass(frozen=True)
class DatabaseRuns:
    """
    Starts and finds runs in the database (see ``Runs``), for commands and for the page.

    Outside a task there is no supervisor to ask, so runs are started as ``airflow dags trigger`` does.

    :param user: the user of the page who starts the runs; None for the command line.
    """

    user: str | None = None

    def check_target(self, dag_id: str, argument: str = "trigger_dag_id") -> None:
        """See ``Runs.check_target``. The database shows every problem, except params that reject the conf."""
        with database() as session:
            dag = airflow_internals.deployed_dags([dag_id], session).get(dag_id)
            if dag is None:
                raise MissingDagError(dag_id, argument)
            if dag.has_import_errors:
                raise TargetError(f"The DAG {dag_id!r} has import errors. Correct them; no message is lost.")
            allowed = getattr(dag, "allowed_run_types", None)  # since Airflow 3.3
            kind = "operator_triggered" if self.user else "manual"
            if allowed is not None and kind not in allowed:
                raise TargetError(f"The DAG {dag_id!r} does not allow {kind} runs. No message is lost.")

    def start(self, dag_id: str, run_id: str, conf: dict[str, Any], note: str | None = None) -> Start:
        """See ``Runs.start``."""
        from airflow.exceptions import DagNotFound, DagRunAlreadyExists, ParamValidationError
        from sqlalchemy.exc import SQLAlchemyError

        try:
            # With "REST_API", a run that the page starts would look like one that its user started by hand.
            kind = "OPERATOR" if self.user else "CLI"
            airflow_internals.create_dag_run(dag_id, run_id, conf, note, triggered_by=kind, user=self.user)
        except DagRunAlreadyExists:
            if (existing := self.find(dag_id, run_id, conf)) is None:
                raise not_its_run(dag_id, run_id) from None
            return existing
        except DagNotFound:
            raise MissingDagError(dag_id) from None
        except SQLAlchemyError as error:
            raise _error_of(error) from None
        except (ValueError, TypeError, OverflowError, RecursionError, ParamValidationError) as error:
            raise RunRejected(f"{type(error).__name__}{param_of(str(error))}") from None
        return Start.STARTED

    def find(self, dag_id: str, run_id: str, conf: Mapping[str, Any]) -> Start | None:
        """See ``Runs.find``."""
        from sqlalchemy import select

        run = airflow_internals.dag_run_model()
        is_this = (run.dag_id == dag_id, run.run_id == run_id)
        read = select(run.conf).where(not_started_by_hand(), *is_this)
        with database() as session:
            return existing_start(session.scalar(read), run_id, conf)

    def unfinished(self, dag_id: str) -> int:
        """See ``Runs.unfinished``."""
        from sqlalchemy import func, select

        run = airflow_internals.dag_run_model()
        count = select(func.count(run.id)).where(run.dag_id == dag_id, run.state.in_(UNFINISHED))
        with database() as session:
            return int(session.scalar(count) or 0)


def _error_of(error: Exception) -> RunRejected | TargetError:
    """
    The rejection that a database error means, or the error of the target.

    It does not have the text of the database error, which quotes values of the message.
    """
    from sqlalchemy.exc import DataError, DBAPIError, StatementError

    if isinstance(error, DBAPIError) and error.connection_invalidated:
        return unreachable(error)
    if isinstance(error, DataError) or (
        isinstance(error, StatementError) and not isinstance(error, DBAPIError)
    ):
        return RunRejected(f"the database cannot hold its payload: {type(error.orig).__name__}")
    return ServerFault(f"the database failed at this run: {type(error).__name__}")
