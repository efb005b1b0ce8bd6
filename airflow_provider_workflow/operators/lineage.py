"""
Lineage for OpenLineage: the inbox as the input of a task, and the DAG runs that the task started.

Airflow's OpenLineage provider calls ``get_openlineage_facets_on_complete`` of an operator when its task has
ended; nothing else imports this module.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from airflow_provider_workflow.dispatch.runs import run_id_of
from airflow_provider_workflow.inbox_names import name_of
from airflow_provider_workflow.text import escaped, host_of

if TYPE_CHECKING:
    from airflow.providers.openlineage.extractors import OperatorLineage

    from airflow_provider_workflow.hooks.workflow import WorkflowHook
    from airflow_provider_workflow.types import DispatchResult

SCHEME = "workflow"
"""Of the namespace of inboxes."""
FACET = "workflow_startedRuns"
"""Key of the run facet that names the started runs."""
MAX_ID_LENGTH = 250
"""Characters of a message id; the result of a dispatch may have cut longer ones."""


def of_inbox(
    hook: WorkflowHook,
    inbox: str,
    trigger_dag_id: str | Mapping[str, str] | None = None,
    result: DispatchResult | None = None,
) -> OperatorLineage:
    """
    The lineage of a task that took messages from an inbox.

    The input is the dataset ``inbox`` in the namespace ``workflow://<host of the connection>``. With a
    result, the run facet ``workflow_startedRuns`` names the target DAGs, and of the started and of the
    existing runs up to 100 each.

    :param inbox: id or name.
    :param trigger_dag_id: the argument of the operator, rendered.
    :param result: of a dispatch, complete or not.
    :raises ImportError: the OpenLineage provider is not installed.
    :raises ConfigurationError: the connection cannot be used; the task has failed for that too.
    """
    from airflow.providers.common.compat.openlineage.facet import Dataset
    from airflow.providers.openlineage.extractors import OperatorLineage

    namespace = f"{SCHEME}://{host_of(hook.settings.base_url)}"
    inputs = [Dataset(namespace=namespace, name=name_of(inbox, hook.workflow_conn_id))]
    facets = {} if result is None or "inbox_id" not in result else _facets(trigger_dag_id, result)
    return OperatorLineage(inputs=inputs, run_facets=facets)


def _facets(trigger_dag_id: str | Mapping[str, str] | None, result: DispatchResult) -> dict[str, Any]:
    from airflow.providers.common.compat.openlineage.facet import RunFacet

    dag_ids = [trigger_dag_id] if isinstance(trigger_dag_id, str) else list(trigger_dag_id or ())
    facet = RunFacet().with_additional_properties(
        inboxId=escaped(result["inbox_id"]),
        dagIds=[escaped(dag_id) for dag_id in dag_ids],
        started=result["started"]["count"],
        startedRunIds=_run_ids(result["started"]["ids"], result["inbox_id"]),
        existing=result["existing"]["count"],
        existingRunIds=_run_ids(result["existing"]["ids"], result["inbox_id"]),
    )
    return {FACET: facet}


def _run_ids(message_ids: list[str], inbox_id: str) -> list[str]:
    """The run ids of messages; none for an id that the result has escaped or cut."""
    whole = [text for text in message_ids if len(text) <= MAX_ID_LENGTH and "\\" not in text]
    return [run_id_of(message_id, inbox_id) for message_id in whole]
