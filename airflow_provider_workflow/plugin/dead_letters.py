"""The routes of the page for dead letters: a list, and the replay of one."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from dataclasses import replace as replaced
from functools import cache, partial
from typing import Annotated

from fastapi import APIRouter
from fastapi.responses import Response
from pydantic import AfterValidator, BaseModel

from airflow_provider_workflow import clock, moments
from airflow_provider_workflow.database import dag_runs
from airflow_provider_workflow.database.dag_runs import (
    DEAD_LETTER_ENTRIES,
    DatabaseRuns,
    Selection,
    StoredDeadLetter,
    StoredRun,
)
from airflow_provider_workflow.database.inbox_uses import InboxUse, dead_letter_dags
from airflow_provider_workflow.dispatch.dead_letters import MAX_CAUSE_LENGTH
from airflow_provider_workflow.dispatch.replay import (
    NoTargetError,
    NotReplayableError,
    Outcome,
    Replay,
    WrongRunError,
)
from airflow_provider_workflow.dispatch.run_errors import RunRejected, TargetError
from airflow_provider_workflow.dispatch.runs import DEAD_LETTER_PREFIX
from airflow_provider_workflow.plugin import access, service
from airflow_provider_workflow.plugin.access import INBOX, PageUser, User, run_of
from airflow_provider_workflow.plugin.responses import PageError, answer, invalid, usable
from airflow_provider_workflow.plugin.service import Fields, text
from airflow_provider_workflow.text import escaped, quoted

log = logging.getLogger(__name__)

MAX_LISTED_DEAD_LETTERS = 200
"""The newest ones that are listed."""
MAX_REASON_LENGTH = 500

connection_routes, change_routes = APIRouter(), APIRouter()
"""The routes of those who may read the connection, and of those who may edit it."""


@connection_routes.get("/connections/{connection_id}/dead-letters")
def list_all_dead_letters(connection_id: str, reader: User) -> Response:
    """The newest dead letters of all inboxes of a connection, as ``list_dead_letters`` has them of one."""
    access.connection(connection_id)
    uses = _naming_uses()
    names = service.names_of(connection_id) if uses else {}
    return answer(_listed(connection_id, None, uses, names, reader))


@connection_routes.get(INBOX + "/dead-letters")
def list_dead_letters(connection_id: str, inbox_id: str, reader: User) -> Response:
    """
    The newest dead letters of an inbox, of those DAGs whose runs the user may read.

    ``large_runs`` counts those that are not listed, as their conf is too large to be read: of this inbox, or
    another one with the same dead-letter DAG. ``unnamed_dags`` are other DAGs with runs that look like dead
    letters of the inbox.
    """
    access.connection(connection_id)
    uses = _naming_uses()
    names = {inbox_id: service.name_of(connection_id, inbox_id) if uses else None}
    return answer(_listed(connection_id, inbox_id, uses, names, reader))


Names = dict[str, str | None]
"""The names of inboxes by id."""


def _listed(
    connection_id: str, inbox_id: str | None, uses: list[InboxUse], names: Names, reader: PageUser
) -> Fields:
    """
    The dead letters of an inbox, or of all of them.

    :param uses: those that name a dead-letter DAG.
    """

    @cache
    def dag_ids_of(an_inbox_id: str) -> set[str]:
        return dead_letter_dags(uses, connection_id, an_inbox_id, names.get(an_inbox_id))

    if inbox_id is None:
        dag_ids = {use.dead_letter_dag_id for use in uses if use.dead_letter_dag_id is not None}
    else:
        dag_ids = dag_ids_of(inbox_id)
    ids = tuple(sorted(dag_ids))
    fetch = partial(_dead_letters, connection_id, inbox_id, ids, dag_ids_of)
    stored = service.cached((connection_id, "dead letters", inbox_id, *ids), fetch)
    may_read = partial(reader.may, "read runs")
    letters = [letter for letter in stored["letters"] if may_read(letter.run.dag_id)]
    return {
        "dead_letters": [_dead_letter(letter, names, reader) for letter in letters],
        "is_partial": stored["is_partial"],
        "large_runs": sum(count for dag_id, count in stored["large"].items() if may_read(dag_id)),
        "unnamed_dags": [{"dag_id": dag_id} for dag_id in filter(may_read, stored["unnamed"])],
        "fetched_at": stored["fetched_at"],
    }


def _naming_uses() -> list[InboxUse]:
    return [use for use in service.uses() if use.dead_letter_dag_id is not None]


def _dag_ids(connection_id: str, inbox_id: str) -> set[str]:
    """The DAGs from which dead letters of an inbox are taken."""
    uses = _naming_uses()
    name = service.name_of(connection_id, inbox_id) if uses else None
    return dead_letter_dags(uses, connection_id, inbox_id, name)


def _dead_letters(
    connection_id: str,
    inbox_id: str | None,
    dag_ids: tuple[str, ...],
    dag_ids_of: Callable[[str], set[str]],
) -> Fields:
    """
    Read dead letters.

    :param inbox_id: None for all inboxes.
    :param dag_ids: the DAGs that are searched.
    :param dag_ids_of: the DAGs from which dead letters of an inbox are taken.
    """
    names = {"connection_id": connection_id, "inbox_id": inbox_id}
    conf = {name: value for name, value in names.items() if value is not None}
    selection = Selection(DEAD_LETTER_PREFIX, conf=conf, is_large=False)
    # Of all inboxes some runs may be of a DAG that another inbox names, so more are read than are listed.
    size = MAX_LISTED_DEAD_LETTERS + 1 if inbox_id is not None else dag_runs.MAX_PAGE_SIZE
    page = next(dag_runs.pages(replaced(selection, dag_ids=dag_ids), DEAD_LETTER_ENTRIES, size=size), [])
    named = [run for run in page if run.dag_id in dag_ids_of(run.conf["inbox_id"] or "")]
    unnamed_dag_ids = {run.dag_id for run in page if run.dag_id not in dag_ids_of(run.conf["inbox_id"] or "")}
    large = Selection(DEAD_LETTER_PREFIX, dag_ids, is_large=True)
    return {
        "letters": list(dag_runs.with_replays(named[:MAX_LISTED_DEAD_LETTERS], omit_large_confs=True)),
        "is_partial": len(page) == size or len(named) > MAX_LISTED_DEAD_LETTERS,
        "large": dag_runs.counts_by_dag(large),
        "unnamed": sorted((dag_runs.counts_by_dag(selection).keys() - {*dag_ids}) | unnamed_dag_ids),
        "fetched_at": moments.iso(clock.now()),
    }


def _dead_letter(letter: StoredDeadLetter, names: Names, reader: PageUser) -> Fields:
    run, conf = letter.run, letter.run.conf
    starters = {"operator": "a task", "cli": "the command line"}
    starter = starters.get(run.triggered_by, run.triggered_by)
    return {
        **run_of(run.dag_id, run.run_id, run.state),
        "started_at": moments.iso(run.run_after),
        "inbox_id": text(conf["inbox_id"]),
        "inbox_name": names.get(conf["inbox_id"] or ""),
        "message_id": text(letter.message_id),
        "reason": text(conf["reason"]),
        "cause": text(conf["cause"], MAX_CAUSE_LENGTH),
        "delivery_count": dag_runs.int_or_none(letter.run.conf["delivery_count"]),
        "created_at": moments.normal(conf["created_at"]),
        "target_dag_id": text(conf["target_dag_id"]),
        "started_by": starter if run.user is None else f"{starter}, for {run.user}",
        "replayed": reader.run(letter.replay_run_id, letter.replays),
    }


def _stored(
    connection_id: str,
    inbox_id: str,
    dag_id: str,
    run_id: str,
    reader: PageUser,
) -> tuple[StoredRun, Fields]:
    """
    The run of a dead letter of an inbox, and its whole conf.

    :raises PageError: there is no such connection or dead letter, or the user may not read it.
    """
    access.connection(connection_id)
    if reader.may("read runs", dag_id) and dag_id in _dag_ids(connection_id, inbox_id):
        for stored in dag_runs.runs_of({run_id: inbox_id}, (dag_id,)).get(run_id, ()):
            conf = dag_runs.whole_conf(stored.key)
            if conf.get("connection_id") == connection_id:
                return stored, conf
    raise _no_dead_letter()


def _no_dead_letter() -> PageError:
    title = "This inbox has no such dead letter, or you may not read it"
    fix = "reload the list; a listener of the inbox must name its DAG as dead_letter_dag_id"
    return PageError(404, "not_found", title, fix)


Text = Annotated[str, AfterValidator(usable)]


class ReplayRequest(BaseModel):
    """
    The body of a request for a replay.

    :param dag_id: that of the dead letter, as ``run_id``.
    :param trigger_dag_id: the DAG to start; None for the target of the dead letter.
    :param reason: why the user replays it, for the note of the run.
    """

    dag_id: Text
    run_id: Text
    trigger_dag_id: Text | None = None
    reason: Text | None = None


@change_routes.post(INBOX + "/dead-letters/replay")
def replay(connection_id: str, inbox_id: str, request: ReplayRequest, reader: User) -> Response:
    """Start the run that the message of a dead letter was meant to start, or find it."""
    run_id = request.run_id
    stored, conf = _stored(connection_id, inbox_id, request.dag_id, run_id, reader)
    origin = f"{quoted(reader.name)} on the page Inboxes"
    if request.reason:
        origin += f": {quoted(request.reason, MAX_REASON_LENGTH)}"
    try:
        letter_replay = Replay.of(conf, run_id)
        dag_id, outcome = letter_replay.start(
            DatabaseRuns(reader.name),
            request.trigger_dag_id,
            origin,
            check_permission=partial(_check_that_may_start, reader),
            search=partial(dag_runs.dags_of_message, since=stored.run_after),
        )
    except WrongRunError:
        raise _no_dead_letter() from None
    except NoTargetError:
        raise invalid("This message has no target DAG", "name the DAG to start") from None
    except NotReplayableError as error:
        title = f"It cannot be replayed: {error}"
        raise PageError(409, "rejected", title, "start a run by hand") from None
    except (RunRejected, TargetError) as error:
        raise PageError(409, "rejected", str(error), "correct the DAG, or name another one") from None
    finally:
        service.forget(connection_id)
    if outcome is Outcome.EXISTING:
        runs = dag_runs.runs_of({letter_replay.run_id: inbox_id}, (dag_id,), stored.run_after)
        if (run := reader.run(letter_replay.run_id, runs.get(letter_replay.run_id, ()))) is None:
            title = "The message has a DAG run already, in a DAG whose runs you may not read"
            raise PageError(409, "rejected", title, "ask someone who may read them")
        return answer({**run, "outcome": outcome.value})
    name, by = escaped(letter_replay.inbox_name), escaped(reader.name)
    log.info("Inbox %s: the dead letter %s was replayed by %s", name, escaped(run_id), by)
    return answer({**run_of(dag_id, letter_replay.run_id, None), "outcome": outcome.value})


def _check_that_may_start(reader: PageUser, dag_ids: Collection[str]) -> None:
    for dag_id in dag_ids:
        if not reader.may("start runs", dag_id):
            title = f"You may not start runs of the DAG {dag_id}"
            raise PageError(403, "forbidden", title, "ask for the permission to trigger its runs")
