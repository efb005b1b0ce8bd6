"""
DAG runs in Airflow's metadata database, for the command line and the API server.

Outside a task there is no supervisor. Runs are started with the function that ``airflow dags
trigger`` calls, after the checks that Airflow's API makes for a task.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from airflow_provider_workflow import airflow_internals
from airflow_provider_workflow.database.dag_runs import database, started_by_provider, unreachable
from airflow_provider_workflow.dispatch.run_errors import (
    RunRejected,
    ServerFault,
    TargetError,
    param_of,
)
from airflow_provider_workflow.dispatch.runs import (
    UNFINISHED,
    Start,
    existing_start,
    not_its_run,
)


class MissingDagError(TargetError):
    """The target DAG does not exist."""

    def __init__(self, dag_id: str) -> None:
        super().__init__(
            f"The DAG {dag_id!r} was not found. Deploy it, or name another target; no message is lost."
        )


@dataclass(frozen=True)
class DatabaseRuns:
    """
    DAG runs in the metadata database (see ``runs.Runs``).

    :param user: the user of the page who starts them; None for the command line.
    """

    user: str | None = None

    def check_target(self, dag_id: str) -> None:
        """See ``Runs.check_target``. The database shows every problem, except params that reject the conf."""
        with database() as session:
            dag = airflow_internals.dag_row(dag_id, session)
            if dag is None:
                raise MissingDagError(dag_id)
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
            # With "REST_API" it would look like a run that the user starts by hand.
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
        read = select(run.conf).where(started_by_provider(), run.dag_id == dag_id, run.run_id == run_id)
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
    """Blame a database error on the message or the target; without its text, which quotes values."""
    from sqlalchemy.exc import DataError, DBAPIError, StatementError

    if isinstance(error, DBAPIError) and error.connection_invalidated:
        return unreachable(error)
    if isinstance(error, DataError) or (
        isinstance(error, StatementError) and not isinstance(error, DBAPIError)
    ):
        return RunRejected(f"the database cannot hold its payload: {type(error.orig).__name__}")
    return ServerFault(f"the database failed at this run: {type(error).__name__}")
