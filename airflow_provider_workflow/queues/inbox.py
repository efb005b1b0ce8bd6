"""
``MessageQueueTrigger(scheme="workflow-inbox", inbox=...)`` of the provider ``common.messaging``.

Airflow imports this module whenever a DAG file imports ``common.messaging``, so it imports next to nothing.
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
    Makes ``MessageQueueTrigger(scheme="workflow-inbox", ...)`` a ``WorkflowInboxEventTrigger``.

    All further arguments are those of ``WorkflowInboxEventTrigger``, and so is what it needs (Airflow 3.3)
    and what it raises. The deprecated form by address (``queue=``) is not served.
    """

    scheme = SCHEME

    def queue_matches(self, queue: str) -> bool:  # noqa: ARG002 its name is the base class's
        """No address is this provider's."""
        return False

    def trigger_class(self) -> type[WorkflowInboxEventTrigger]:
        """The trigger that is made of the arguments."""
        from airflow_provider_workflow.triggers.event import WorkflowInboxEventTrigger

        return WorkflowInboxEventTrigger

    def trigger_kwargs(self, queue: str, **kwargs: Any) -> dict[str, Any]:  # noqa: ARG002 the same
        """Nothing, as no address is this provider's."""
        return {}
