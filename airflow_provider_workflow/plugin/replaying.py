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
from airflow_provider_workflow.plugin import airflow_server, errors, service
from airflow_provider_workflow.plugin.access import Reader, run_url

log = logging.getLogger(__name__)

LONGEST_REASON = 500


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
    found = _found(run, inbox_id, reader)
    dag_id = target or found.target_dag_id
    if dag_id is None:
        raise errors.invalid("No DAG was meant to take this message", "name the DAG that is to take it")
    for each in {dag_id, found.target_dag_id or dag_id}:
        if not airflow_server.may_trigger(reader.user, each):
            fix = "ask for the permission to trigger its runs"
            raise errors.forbidden(f"You must not start runs of the DAG {each}", fix)
    user = airflow_server.name_of(reader.user)
    runs = DatabaseRuns("REST_API", user)
    origin = f"{user} on the page Inboxes" + (f": {plain(reason, LONGEST_REASON)}" if reason else "")
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


def _found(run: tuple[str, str], inbox_id: str, reader: Reader) -> Replay:
    """
    The replay of a dead letter of an inbox.

    :raises PageError: the user may not read it, or there is no such dead letter.
    """
    dag_id, run_id = run
    stored = None
    if reader.may_read_runs(dag_id) and run_id.startswith(RUN_PREFIX):
        try:
            stored = dag_runs.found(dag_id, run_id, ("inbox_id",))
            found = Replay.of(dag_runs.whole_conf(stored.key)) if stored else None
        except TargetError as error:
            raise errors.database_away(error) from None
        except NotADeadLetterError as error:
            raise errors.PageError(
                409, "rejected", f"It cannot be replayed: {error}", "start a run by hand"
            ) from None
        if found and found.dead_letter_run_id == run_id and found.conf["inbox_id"] == inbox_id:
            return found
    title = "There is no such dead letter of this inbox that you may read"
    raise errors.PageError(404, "not_found", title, "reload the list")
