"""The inbox "orders", with one mail for the dead letters of each poll and one for quarantined messages."""

import logging
from datetime import datetime

from airflow.providers.smtp.notifications.smtp import SmtpNotifier
from airflow.sdk import DAG, task

from airflow_provider_workflow.dispatch.dead_letters import message_of
from airflow_provider_workflow.sensors.inbox import WorkflowInboxSensor

log = logging.getLogger(__name__)

mail = SmtpNotifier(
    to="on-call@example.com",
    subject="{{ workflow.count }} messages of {{ workflow.inbox }}: {{ workflow.event }}",
    html_content="""
        {% for message in workflow.messages %}
        <p>{{ message.id | e }} of {{ message.created_at | e }}: {{ message.cause | e }}</p>
        {% endfor %}
    """,
)


def write_log(context):
    alert = context["workflow"]
    log.warning("%s: %d messages of the inbox %s", alert["event"], alert["count"], alert["inbox"])


once = {"schedule": "@continuous", "max_active_runs": 1}
with DAG("order_listener", start_date=datetime(2025, 1, 1), **once) as listener:
    WorkflowInboxSensor(
        task_id="start_runs",
        inbox="orders",
        trigger_dag_id="handle_order",
        dead_letter_dag_id="dead_order",
        on_dead_letter=[mail, write_log],
        on_quarantined=mail,
        deferrable=True,
    )

with DAG("dead_order", schedule=None, start_date=datetime(2025, 1, 1)):

    @task
    def keep(dag_run=None):
        log.info("Kept: %s", message_of(dag_run.conf)["id"])

    keep()
