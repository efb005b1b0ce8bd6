"""
DAG runs as the command line reaches them: in Airflow's metadata database.

Outside a task there is no supervisor to ask, so this calls the function that ``airflow dags trigger``
calls, with the checks before it that Airflow's API makes for a task. It is internal API, the same in
Airflow 3.1 to 3.3: keep it here.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from inspect import signature
from typing import Any

from airflow_provider_workflow.cli.running import Exit
from airflow_provider_workflow.dispatch.rejections import (
    RunRefused,
    ServerFault,
    TargetError,
    reason_without_values,
)
from airflow_provider_workflow.dispatch.runs import Start, check_conf


class MissingDagError(TargetError):
    """There is no such DAG."""

    exit_code = Exit.NOT_FOUND

    def __init__(self, dag_id: str) -> None:
        super().__init__(
            f"The DAG {dag_id!r} was not found. Deploy it, or correct --trigger-dag-id; no message is lost."
        )


class DatabaseRuns:
    """Runs in the metadata database (see ``runs.Runs``)."""

    alongside = False
    """Ctrl-C ends whatever a command does, and would not reach another thread."""

    def check_target(self, dag_id: str, *, thorough: bool = False) -> None:  # noqa: ARG002 always thorough
        """See ``Runs.check_target``; the database tells it all, except what the params reject."""
        from airflow.models.dag import DagModel
        from airflow.models.dagbag import DBDagBag
        from airflow.utils.session import create_session
        from sqlalchemy import select

        with _asking_the_database(), create_session() as session:
            dag = session.scalar(select(DagModel).where(DagModel.dag_id == dag_id, ~DagModel.is_stale))
            if dag is None or DBDagBag().get_latest_version_of_dag(dag_id, session=session) is None:
                raise MissingDagError(dag_id)
            if dag.has_import_errors:
                raise TargetError(f"The DAG {dag_id!r} has import errors. Correct them; no message is lost.")
            allowed = getattr(dag, "allowed_run_types", None)  # since Airflow 3.3
            if allowed is not None and "manual" not in allowed:
                raise TargetError(f"The DAG {dag_id!r} does not allow manual runs. No message is lost.")

    def start(self, dag_id: str, run_id: str, conf: dict[str, Any], note: str | None = None) -> Start:
        """See ``Runs.start``."""
        check_conf(conf)
        from airflow.api.common.trigger_dag import trigger_dag
        from airflow.exceptions import DagNotFound, DagRunAlreadyExists, ParamValidationError
        from airflow.utils.retries import run_with_db_retries
        from airflow.utils.types import DagRunTriggeredByType
        from sqlalchemy.exc import SQLAlchemyError

        try:
            # A second try finds the run that the first one, or somebody else at the same time, has started.
            for attempt in run_with_db_retries():
                with attempt:
                    trigger_dag(
                        dag_id,
                        triggered_by=DagRunTriggeredByType.CLI,
                        run_id=run_id,
                        conf=conf,
                        **_note(note),
                    )
        except DagRunAlreadyExists:
            return Start.EXISTING
        except DagNotFound:
            raise MissingDagError(dag_id) from None
        except SQLAlchemyError as error:
            raise _fault(error) from None
        except (ValueError, TypeError, OverflowError, RecursionError, ParamValidationError) as error:
            raise RunRefused(f"{type(error).__name__}: {reason_without_values(str(error))}") from None
        return Start.STARTED

    def exists(self, dag_id: str, run_id: str) -> bool:
        """See ``Runs.exists``."""
        from airflow.models.dagrun import DagRun

        return self._count(DagRun.dag_id == dag_id, DagRun.run_id == run_id) > 0

    def unfinished(self, dag_id: str) -> int:
        """See ``Runs.unfinished``."""
        from airflow.models.dagrun import DagRun

        return self._count(DagRun.dag_id == dag_id, DagRun.state.in_(["queued", "running"]))

    @staticmethod
    def _count(*conditions: Any) -> int:
        from airflow.models.dagrun import DagRun
        from airflow.utils.session import create_session
        from sqlalchemy import func, select

        with _asking_the_database(), create_session() as session:
            return int(session.scalar(select(func.count()).select_from(DagRun).where(*conditions)) or 0)


@contextmanager
def _asking_the_database() -> Iterator[None]:
    from sqlalchemy.exc import SQLAlchemyError

    try:
        yield
    except SQLAlchemyError as error:
        raise _away(error) from None


def _note(note: str | None) -> dict[str, Any]:
    from airflow.api.common.trigger_dag import trigger_dag

    # Since Airflow 3.2.
    return {"note": note} if note and "note" in signature(trigger_dag).parameters else {}


def _fault(error: Exception) -> RunRefused | TargetError:
    """Of one message, or of everything? The database's texts stay out: they quote what it was given."""
    from sqlalchemy.exc import DataError, DBAPIError, StatementError

    if isinstance(error, DBAPIError) and error.connection_invalidated:
        return _away(error)
    if isinstance(error, DataError) or (
        isinstance(error, StatementError) and not isinstance(error, DBAPIError)
    ):
        return RunRefused(f"the database cannot hold its payload: {type(error.orig).__name__}")
    return ServerFault(f"the database failed at this run: {type(error).__name__}")


def _away(error: Exception) -> TargetError:
    return TargetError(
        "Airflow's metadata database is out of reach, or not migrated:"
        f" {type(error).__name__}. No message is lost."
    )
