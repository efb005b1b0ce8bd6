"""Replays of dead letters from the page, by a user who may start runs of the target DAG."""

from __future__ import annotations

import logging
from typing import Any

from airflow_provider_workflow.client.wire import plain
from airflow_provider_workflow.database import dag_runs
from airflow_provider_workflow.database.runs import DatabaseRuns
from airflow_provider_workflow.dispatch.dead_letters import RUN_PREFIX
from airflow_provider_workflow.dispatch.rejections import RunRejected, TargetError
from airflow_provider_workflow.dispatch.replay import NotADeadLetterError, Replay
from airflow_provider_workflow.dispatch.runs import quoted
from airflow_provider_workflow.plugin import airflow_server, errors, service
from airflow_provider_workflow.plugin.access import Reader, run_url

log = logging.getLogger(__name__)

LONGEST_REASON = 500
LONGEST_MESSAGE = 20_000
"""Characters of a message that are shown."""


def replay(
    connection_id: str, inbox_id: str, run: tuple[str, str], target: str | None, reason: str, reader: Reader
) -> dict[str, Any]:
    """
    Start the run that the message of a dead letter was meant to start, or find it.

    :param run: DAG id and run id of the dead letter.
    :param target: the DAG; None for that of the dead letter.
    :param reason: why the user replays it, for the note of the run.
    :raises PageError: there is no such dead letter, the user must not do it, or Airflow rejects the run.
    """
    found = _found(connection_id, inbox_id, run, reader)
    dag_id = target or found.target_dag_id
    if dag_id is None:
        raise errors.invalid("No DAG was meant to take this message", "name the DAG that is to take it")
    for each in {dag_id, found.target_dag_id or dag_id}:
        if not airflow_server.may_trigger(reader.user, each):
            fix = "ask for the permission to trigger its runs"
            raise errors.forbidden(f"You must not start runs of the DAG {each}", fix)
    user = airflow_server.name_of(reader.user)
    runs = DatabaseRuns(user)
    origin = f"{quoted(user)} on the page Inboxes"
    if reason:
        origin += f": {quoted(reason, LONGEST_REASON)}"
    try:
        runs.check_target(dag_id)
        existing, outcome = found.start(runs, target, origin)
    except (RunRejected, TargetError) as error:
        raise errors.PageError(409, "rejected", str(error), "correct the DAG, or name another one") from None
    finally:
        service.ANSWERS.forget(connection_id)
    log.info("Inbox %s: the dead letter %s was replayed by %s", plain(inbox_id), plain(run[1]), plain(user))
    url = run_url(existing, found.run_id)
    return {"dag_id": existing, "run_id": found.run_id, "url": url, "outcome": outcome.value}


def message(connection_id: str, inbox_id: str, run: tuple[str, str], reader: Reader) -> dict[str, Any]:
    """
    The message of a dead letter as the service sent it, payload included, for a person who is to replay it.

    :param run: DAG id and run id of the dead letter.
    :raises PageError: there is no such dead letter that the user may read.
    """
    text = str(_conf(connection_id, inbox_id, run, reader).get("message_json", ""))
    return {"message_json": text if len(text) <= LONGEST_MESSAGE else f"{text[:LONGEST_MESSAGE]} ..."}


def _found(connection_id: str, inbox_id: str, run: tuple[str, str], reader: Reader) -> Replay:
    """
    The replay of a dead letter of an inbox.

    :raises PageError: the user may not read it, there is no such dead letter, or it cannot be replayed.
    """
    try:
        found = Replay.of(_conf(connection_id, inbox_id, run, reader))
    except NotADeadLetterError as error:
        title = f"It cannot be replayed: {error}"
        raise errors.PageError(409, "rejected", title, "start a run by hand") from None
    if found.dead_letter_run_id != run[1]:
        raise _not_found()
    return found


def _conf(connection_id: str, inbox_id: str, run: tuple[str, str], reader: Reader) -> dict[str, Any]:
    """
    The conf of a dead letter of an inbox.

    :raises PageError: there is no such connection or dead letter, or the user may not read it.
    """
    service.check_connection(connection_id)
    dag_id, run_id = run
    if reader.may_read_runs(dag_id) and run_id.startswith(RUN_PREFIX):
        try:
            stored = dag_runs.found(dag_id, run_id, ())
            conf = dag_runs.whole_conf(stored.key) if stored else {}
        except TargetError as error:
            raise errors.database_away(error) from None
        if (conf.get("connection_id"), conf.get("inbox_id")) == (connection_id, inbox_id):
            return conf
    raise _not_found()


def _not_found() -> errors.PageError:
    title = "There is no such dead letter of this inbox that you may read"
    return errors.PageError(404, "not_found", title, "reload the list")
