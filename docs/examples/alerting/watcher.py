"""A watcher of the inbox "deliveries", whose triggerer sends a mail for quarantined messages."""

from airflow.providers.smtp.notifications.smtp import SmtpNotifier
from airflow.sdk import AssetWatcher
from airflow.sdk.definitions.deadline import AsyncCallback

from airflow_provider_workflow.assets import create_asset
from airflow_provider_workflow.triggers.notice import WorkflowInboxNoticeTrigger

mail = AsyncCallback(
    SmtpNotifier,
    kwargs={
        "to": "on-call@example.com",
        "subject": "{{ workflow.count }} messages of {{ workflow.inbox }} are in quarantine",
        "html_content": "{{ workflow.messages | map(attribute='id') | join(', ') | e }}",
    },
)
trigger = WorkflowInboxNoticeTrigger(inbox="deliveries", on_quarantined=mail)
deliveries = create_asset(inbox="deliveries", watchers=[AssetWatcher(name="deliveries", trigger=trigger)])
