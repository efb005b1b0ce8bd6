"""Links on a task's page (tab Details): the editor of a guess, and DAG runs of messages."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote, urlencode

from airflow.sdk import BaseOperatorLink

from airflow_provider_workflow import moments

CLOCK_MARGIN = timedelta(seconds=5)
"""How far the clocks of worker and API server may be apart."""


class WorkflowEditorLink(BaseOperatorLink):
    """Link of a ``WorkflowGuessOperator`` to the editor, with the guessed steps selected."""

    name = "Open workflow editor"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        """
        The ``prefilled_url`` of the guess; empty if there is none.

        Airflow calls this in the task's process when a try ends, and stores the result.
        """
        url = _returned(operator, ti_key).get("prefilled_url")
        # Only web URLs, as users click on it: no javascript: URL.
        return url if isinstance(url, str) and url.startswith(("https://", "http://")) else ""


class StartedRunsLink(BaseOperatorLink):
    """Link of a sensor or a dispatch operator to the started DAG runs."""

    name = "Started DAG runs"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        """
        URL of a list of the runs that messages started while the task ran.

        It is empty if the task started none. The list is that of the target DAG, or of all DAGs if
        there are several targets.
        """
        from airflow_provider_workflow import clock
        from airflow_provider_workflow.dispatch.runs import RUN_ID_PREFIX

        targets = operator.trigger_dag_id
        started = _returned(operator, ti_key).get("started")
        if not targets or (started and not started["count"]):
            return ""
        dag_ids = [targets] if isinstance(targets, str) else list(targets)
        page = f"dags/{dag_ids[0]}/runs" if len(dag_ids) == 1 else "dag_runs"
        return _page(
            page,
            run_id_pattern=RUN_ID_PREFIX,
            run_after_gte=moments.iso(ti_key.start_date - CLOCK_MARGIN),
            run_after_lte=moments.iso(datetime.fromtimestamp(clock.now(), UTC) + CLOCK_MARGIN),
        )


class ReplayedRunLink(BaseOperatorLink):
    """Link of a ``WorkflowDeadLetterReplayOperator`` to the run of the message that it replayed."""

    name = "Replayed DAG run"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        """URL of the run; empty if the task has not succeeded."""
        result = _returned(operator, ti_key)
        if not result:
            return ""
        run_id = quote(result["run_id"], safe="")
        return f"{_page('dags')}/{result['dag_id']}/runs/{run_id}"


def _returned(operator: Any, ti_key: Any) -> Mapping[str, Any]:
    """What the task returned; empty if it did not succeed, or pushes no XCom."""
    from airflow.providers.common.compat.sdk import TaskInstanceState, XCom

    # Airflow logs an ERROR for each missing XCom, and calls links at each deferral too.
    if not operator.do_xcom_push or ti_key.state != TaskInstanceState.SUCCESS:
        return {}
    value = XCom.get_value(ti_key=ti_key, key="return_value")
    return value if isinstance(value, Mapping) else {}


def _page(path: str, **query: str) -> str:
    from airflow.providers.common.compat.sdk import conf

    base = str(conf.get("api", "base_url", fallback="/")).rstrip("/")
    return f"{base}/{path}" + (f"?{urlencode(query)}" if query else "")
