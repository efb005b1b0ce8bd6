"""Links on the page of a task: the editor of a guessed workflow, and the DAG runs that messages started."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from typing import Any
from urllib.parse import quote, urlencode

from airflow.sdk import BaseOperatorLink

from airflow_provider_workflow.runs import RUN_ID_PREFIX, run_id_of

CLOCK_SKEW = timedelta(seconds=5)
"""How far the clocks of worker and API server may be apart."""


class WorkflowEditorLink(BaseOperatorLink):
    """Leads from a ``WorkflowGuessOperator`` to the editor, with the guessed steps selected."""

    name = "Open workflow editor"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        """
        The ``prefilled_url`` of the guess; empty where there is none.

        Airflow calls this in the task's own process, when a try ends, and stores what it returns.
        """
        guess = returned(operator, ti_key)
        address = guess.get("prefilled_url") if isinstance(guess, Mapping) else None
        # What the page offers to be clicked on is an address of the web, and no script.
        return address if isinstance(address, str) and address.startswith(("https://", "http://")) else ""


class StartedRunsLink(BaseOperatorLink):
    """Leads from a sensor or a dispatch operator to the DAG runs that it started."""

    name = "Started DAG runs"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        """
        The one run that was started; else the list of runs that messages started while the task ran.

        The list is that of the target DAG; where messages may go to several DAGs, that of all DAGs.
        Before Airflow 3.2 it shows the runs of other times too. Empty where nothing was started.
        """
        target = operator.trigger_dag_id
        if not target:
            return ""
        dag_id = _only(target)
        started = _started(returned(operator, ti_key))
        if started == []:
            return ""
        if started and len(started) == 1:
            run_id = run_id_of(started[0])
            if dag_id:
                return _page(f"dags/{dag_id}/runs/{quote(run_id, safe='')}")
            return _page("dag_runs", run_id_pattern=run_id)
        return _page(
            f"dags/{dag_id}/runs" if dag_id else "dag_runs",
            run_id_pattern=RUN_ID_PREFIX,
            run_after_gte=_text(ti_key.start_date - CLOCK_SKEW),
            run_after_lte=_text(datetime.now(timezone.utc) + CLOCK_SKEW),
        )


def returned(operator: Any, ti_key: Any) -> Any:
    """What the task returned; None where it has not returned anything."""
    from airflow.providers.common.compat.sdk import XCom

    if not operator.do_xcom_push:
        return None
    return XCom.get_value(ti_key=ti_key, key="return_value")


def _started(result: Any) -> list[str] | None:
    """The ids of the first 100 messages whose runs were started; None where nothing was returned."""
    if not isinstance(result, Mapping):
        return None
    ids: list[str] = result["started"]["ids"]
    return ids


def _only(target: str | Mapping[str, str]) -> str | None:
    """The DAG where there is but one."""
    if isinstance(target, str):
        return target
    return next(iter(target)) if len(target) == 1 else None


def _page(path: str, **query: str) -> str:
    from airflow.providers.common.compat.sdk import conf

    base = str(conf.get("api", "base_url", fallback="/")).rstrip("/")
    return f"{base}/{path}" + (f"?{urlencode(query)}" if query else "")


def _text(moment: datetime) -> str:
    return moment.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
