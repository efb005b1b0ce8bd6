"""Links on a task's page (tab Details): the editor of a guess, and the DAG runs that messages started."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from typing import Any
from urllib.parse import quote, urlencode

from airflow.sdk import BaseOperatorLink

from airflow_provider_workflow.airflow_internals import airflow_release

CLOCK_SKEW = timedelta(seconds=5)
"""How far the clocks of worker and API server may be apart."""
LONGEST_PATTERN = 1000
"""Characters of run ids in one address: proxies refuse longer ones, and Airflow's page shows them all."""


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
        The one run that was started, or a list of those that were; empty where nothing was started.

        The list is that of the target DAG; where messages may go to several DAGs, that of all DAGs. Of
        more runs than one address can name (some 20), and of a task that failed, it is the list of all
        runs that messages started while the task ran. Before Airflow 3.2, which cannot list runs by their
        ids or time, it is the list of all runs that messages started.
        """
        from airflow_provider_workflow import clock
        from airflow_provider_workflow.dispatch.runs import RUN_ID_PREFIX, run_id_of

        target = operator.trigger_dag_id
        if not target:
            return ""
        dag_id = _only(target)
        result = returned(operator, ti_key)
        message_ids = _started(result)
        if message_ids == []:
            return ""
        run_ids = [run_id_of(message_id, result["inbox_id"]) for message_id in message_ids or ()]
        if len(run_ids) == 1 and dag_id:
            return _page(f"dags/{dag_id}/runs/{quote(run_ids[0], safe='')}")
        page = f"dags/{dag_id}/runs" if dag_id else "dag_runs"
        if pattern := _pattern(run_ids):
            return _page(page, run_id_pattern=pattern)
        return _page(
            page,
            run_id_pattern=RUN_ID_PREFIX,
            run_after_gte=_text(ti_key.start_date - CLOCK_SKEW),
            run_after_lte=_text(datetime.fromtimestamp(clock.now(), timezone.utc) + CLOCK_SKEW),
        )


def returned(operator: Any, ti_key: Any) -> Any:
    """What the task returned; None where it did not end with success, or stores nothing."""
    from airflow.providers.common.compat.sdk import TaskInstanceState, XCom

    # Airflow logs an ERROR for each XCom that is not there, and asks for links at each deferral as well.
    if not operator.do_xcom_push or ti_key.state != TaskInstanceState.SUCCESS:
        return None
    return XCom.get_value(ti_key=ti_key, key="return_value")


def _started(result: Any) -> list[str] | None:
    """The ids of the messages whose runs were started; None where these are not, or not all, known."""
    if not isinstance(result, Mapping):
        return None
    ids: list[str] = result["started"]["ids"]
    # The inbox is part of a run's id; a result that started nothing need not name it.
    known = len(ids) == result["started"]["count"] and ("inbox_id" in result or not ids)
    return ids if known else None


def _pattern(run_ids: list[str]) -> str:
    """What Airflow lists these runs by; empty where it cannot."""
    if not run_ids or (len(run_ids) > 1 and airflow_release() < (3, 2)):
        return ""
    pattern = "|".join(run_ids)
    return pattern if len(pattern) <= LONGEST_PATTERN else ""


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
