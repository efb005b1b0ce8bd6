"""
``MessageQueueTrigger(scheme="workflow-inbox", inbox=...)`` of the provider ``common.messaging``.

Airflow imports this module whenever a DAG file imports ``common.messaging``, so it has few imports.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.exceptions import AirflowOptionalProviderFeatureException

try:
    from airflow.providers.common.messaging.providers.base_provider import BaseMessageQueueProvider
except ImportError as missing:
    raise AirflowOptionalProviderFeatureException(
        "MessageQueueTrigger needs the provider common.messaging:"
        " pip install 'airflow-provider-workflow[common-messaging]'"
    ) from missing

if TYPE_CHECKING:
    from airflow_provider_workflow.triggers.event import WorkflowInboxEventTrigger

SCHEME = "workflow-inbox"


class WorkflowInboxMessageQueueProvider(BaseMessageQueueProvider):
    """
    Maps ``MessageQueueTrigger(scheme="workflow-inbox", ...)`` to ``WorkflowInboxEventTrigger``.

    Other arguments, requirements (Airflow 3.3) and exceptions are those of ``WorkflowInboxEventTrigger``. Its
    ``queue`` is ``trigger_queue`` before version 2.2 of common.messaging.
    """

    scheme = SCHEME

    def queue_matches(self, queue: str) -> bool:  # noqa: ARG002 its name is the base class's
        """Return False: the provider does not support queue URLs."""
        return False

    def trigger_class(self) -> type[WorkflowInboxEventTrigger]:
        """The trigger class that is created with the arguments."""
        from airflow_provider_workflow.triggers.event import WorkflowInboxEventTrigger

        return WorkflowInboxEventTrigger

    def trigger_kwargs(self, queue: str, **kwargs: Any) -> dict[str, Any]:  # noqa: ARG002 the same
        """Return no arguments, as the provider does not support queue URLs."""
        return {}
