"""
Queries of the DAG runs in Airflow's metadata database: by the beginning of their id, and by their conf.

There may be a hundred thousand such runs, each with a message in its conf. So the database filters, reads
pages, and returns single entries of a conf.

A user who may start runs of a DAG chooses their ids and confs. So only runs that a task, the command line or
the page started for this provider are read: no other run is the run of a message, or a dead letter.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from airflow_provider_workflow import airflow_internals
from airflow_provider_workflow.dispatch.rejections import TargetError

Entry = str | tuple[str, ...]
"""An entry of a conf: its name, or the names that lead to one within it."""
MOST_DIGITS = 9
LONGEST_ENTRY = 5_000
"""Characters that are read of an entry; those of a dead letter are shorter."""
PAGE = 500
"""Runs of a query; some databases limit the number of values in one."""
CLOCK_SKEW = timedelta(hours=1)
"""How far the clocks of the machines that start runs may be apart."""


class StoredRun(NamedTuple):
    """
    A DAG run.

    :param key: its primary key.
    :param run_after: when it was started.
    :param triggered_by: ``operator`` or ``cli``.
    :param user: who started the run whose task started this one, if Airflow knows it.
    :param conf: the requested entries of its conf, as strings; None for those that it lacks.
    """

    key: int
    dag_id: str
    run_id: str
    state: str
    run_after: datetime
    triggered_by: str
    user: str | None
    conf: dict[Entry, str | None]


class FoundRun(NamedTuple):
    """A DAG run that was found by its id."""

    dag_id: str
    state: str
    run_after: datetime


def number(entry: str | None) -> int | None:
    """
    The number in an entry of a conf; None for anything else, as a run of that id may have any conf.

    :param entry: as a string; more than nine digits are no number of ours.
    """
    is_number = entry is not None and entry.isascii() and entry.isdigit() and len(entry) <= MOST_DIGITS
    return int(entry) if entry is not None and is_number else None


@dataclass(frozen=True)
class Selection:
    """
    Selects DAG runs.

    :param prefix: the beginning of their ids.
    :param dag_ids: only runs of these DAGs; all DAGs by default.
    :param since: only runs that were started then or later.
    :param until: only runs that were started then or before.
    :param conf: only runs whose conf has this string in this entry.
    """

    prefix: str
    dag_ids: tuple[str, ...] = ()
    since: datetime | None = None
    until: datetime | None = None
    conf: Mapping[str, str] = field(default_factory=dict)

    def conditions(self) -> list[Any]:
        """The conditions of a query."""
        run = airflow_internals.dag_run_model()
        found = [started_by_provider(), run.run_id.startswith(self.prefix, autoescape=True)]
        if self.dag_ids:
            found.append(run.dag_id.in_(self.dag_ids))
        if self.since is not None:
            found.append(run.run_after >= self.since)
        if self.until is not None:
            found.append(run.run_after <= self.until)
        return found + [run.conf[name].as_string() == value for name, value in self.conf.items()]


def started_by_provider() -> Any:
    """
    The condition that a task, the command line or the page started a run.

    Airflow names the user also of runs that tasks start, if that user started the run of the task. Its own
    command ``airflow dags trigger`` always names one, as the commands of this provider do not.
    """
    from sqlalchemy import and_, or_

    run = airflow_internals.dag_run_model()
    by_command = and_(run.triggered_by == "CLI", run.triggering_user_name.is_(None))
    return or_(run.triggered_by == "OPERATOR", by_command)


def pages(
    selection: Selection, entries: tuple[Entry, ...], *, size: int, newest_first: bool = True
) -> Iterator[list[StoredRun]]:
    """
    The selected runs, page by page, ordered by the time of their start.

    :param entries: the entries of the conf to read.
    :param size: runs of a page, at most ``PAGE``.
    :raises TargetError: the database is unreachable.
    """
    last: StoredRun | None = None
    while page := _page(selection.conditions(), entries, last, newest_first, size):
        yield page
        if len(page) < size:
            return
        last = page[-1]


def named(selection: Selection, entries: tuple[Entry, ...], ids: Collection[str]) -> list[StoredRun]:
    """
    The selected runs that have one of these ids, or whose conf has one of them as ``message_id``.

    :raises TargetError: the database is unreachable.
    """
    from sqlalchemy import or_

    run, each = airflow_internals.dag_run_model(), list(ids)
    found: list[StoredRun] = []
    for start in range(0, len(each), PAGE):
        some = each[start : start + PAGE]
        own = or_(run.run_id.in_(some), run.conf["message_id"].as_string().in_(some))
        conditions, last = [*selection.conditions(), own], None
        while page := _page(conditions, entries, last, True, PAGE):
            found += page
            last = page[-1]
    return found


def _page(
    conditions: list[Any], entries: tuple[Entry, ...], last: StoredRun | None, newest_first: bool, size: int
) -> list[StoredRun]:
    from sqlalchemy import and_, or_, select

    run = airflow_internals.dag_run_model()
    if last is not None:
        key = run.id < last.key if newest_first else run.id > last.key
        time = run.run_after < last.run_after if newest_first else run.run_after > last.run_after
        conditions = [*conditions, or_(time, and_(run.run_after == last.run_after, key))]
    order = [each.desc() if newest_first else each.asc() for each in (run.run_after, run.id)]
    columns = (run.id, run.dag_id, run.run_id, run.state, run.run_after)
    starter = (run.triggered_by, run.triggering_user_name)
    read = select(*columns, *starter, *(run.conf[name].as_string() for name in entries))
    with database_errors(), airflow_internals.database_session() as session:
        rows = session.execute(read.where(*conditions).order_by(*order).limit(size)).all()
    return [_stored(row, entries) for row in rows]


def _stored(row: Any, entries: tuple[Entry, ...]) -> StoredRun:
    key, dag_id, run_id, state, run_after, triggered_by, user, *values = row
    # SQLite returns a number of the conf as a number.
    conf = {
        name: None if value is None else str(value)[:LONGEST_ENTRY]
        for name, value in zip(entries, values, strict=True)
    }
    return StoredRun(key, dag_id, run_id, str(state), run_after, triggered_by.value, user, conf)


def found(dag_id: str, run_id: str, entries: tuple[Entry, ...]) -> StoredRun | None:
    """
    One run; None if there is no such run.

    :raises TargetError: the database is unreachable.
    """
    run = airflow_internals.dag_run_model()
    conditions = [started_by_provider(), run.dag_id == dag_id, run.run_id == run_id]
    page = _page(conditions, entries, None, True, 1)
    return page[0] if page else None


def whole_conf(key: int) -> dict[str, Any]:
    """
    The conf of a run; empty if the run was deleted.

    :param key: its primary key.
    :raises TargetError: the database is unreachable.
    """
    from sqlalchemy import select

    run = airflow_internals.dag_run_model()
    with database_errors(), airflow_internals.database_session() as session:
        conf = session.scalar(select(run.conf).where(run.id == key))
    return conf if isinstance(conf, dict) else {}


def runs_of(
    inbox_ids: Mapping[str, str], dag_ids: Collection[str], since: datetime | None = None
) -> dict[str, list[FoundRun]]:
    """
    The runs with these ids that are of messages of these inboxes, by run id.

    :param inbox_ids: the inbox that the conf of a run must name, by run id; at most ``PAGE`` run ids.
    :param dag_ids: the DAGs in which they are searched.
    :param since: if given, runs of all other DAGs are found too, if they were started then or later.
    :raises TargetError: the database is unreachable.
    """
    from sqlalchemy import or_, select

    run = airflow_internals.dag_run_model()
    where = run.dag_id.in_(list(dag_ids))
    if since is not None:
        where = or_(where, run.run_after >= since - CLOCK_SKEW)
    read = select(run.run_id, run.dag_id, run.state, run.run_after, run.conf["inbox_id"].as_string())
    conditions = started_by_provider(), run.run_id.in_(list(inbox_ids)), where
    with database_errors(), airflow_internals.database_session() as session:
        rows = session.execute(read.where(*conditions)).all()
    found: dict[str, list[FoundRun]] = {}
    for run_id, dag_id, state, run_after, inbox_id in rows:
        if inbox_id == inbox_ids[run_id]:
            found.setdefault(run_id, []).append(FoundRun(dag_id, str(state), run_after))
    return found


@contextmanager
def database_errors() -> Iterator[None]:
    """
    Convert the errors of a query.

    :raises TargetError: the database is unreachable, or not migrated.
    """
    from sqlalchemy.exc import SQLAlchemyError

    try:
        yield
    except SQLAlchemyError as error:
        raise unreachable(error) from None


def unreachable(error: Exception) -> TargetError:
    """The error of a database that does not answer, or has no tables."""
    return TargetError(
        "Airflow's metadata database is unreachable, or not migrated:"
        f" {type(error).__name__}. No message is lost."
    )


def queued_for_later(session: Any, moment: datetime) -> dict[str, tuple[int, datetime]]:
    """
    Queued runs that an asset event made, and that the scheduler does not start before a moment.

    :return: their number and the earliest start, by DAG id.
    """
    from airflow.models.dagrun import DagRun
    from sqlalchemy import func, select

    found = (
        select(DagRun.dag_id, func.count(), func.min(DagRun.run_after))
        .where(DagRun.state == "queued", DagRun.run_type == "asset_triggered", DagRun.run_after > moment)
        .group_by(DagRun.dag_id)
    )
    return {dag_id: (count, run_after) for dag_id, count, run_after in session.execute(found)}
