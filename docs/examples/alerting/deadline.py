"""A mail if the run of a message fails or takes longer than 30 minutes, or if a message waits that long."""

from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.providers.smtp.notifications.smtp import SmtpNotifier
from airflow.sdk import DAG, task
from airflow.sdk.definitions.callback import AsyncCallback
from airflow.sdk.definitions.deadline import DeadlineAlert, DeadlineReference

from airflow_provider_workflow.hooks.workflow import WorkflowHook

LONGEST = timedelta(minutes=30)
TO: dict[str, Any] = {"to": "on-call@example.com", "html_content": "See the run in Airflow."}

# A run that failed is no dead letter: the service has no copy of its message any more.
failed_run = SmtpNotifier(**TO, subject="Failed: {{ dag_run.run_id }}")
late_run = DeadlineAlert(
    reference=DeadlineReference.DAGRUN_QUEUED_AT,
    interval=LONGEST,
    callback=AsyncCallback(SmtpNotifier, kwargs={**TO, "subject": "Late: {{ dag_run.dag_run_id }}"}),
)

with DAG(
    "handle_parcel",
    schedule=None,
    start_date=datetime(2025, 1, 1),
    default_args={"retries": 3},
    on_failure_callback=failed_run,
    deadline=late_run,
    tags=["example"],
) as handler:

    @task
    def handle(dag_run=None):
        return dag_run.conf["message"]["id"]

    handle()

with DAG(
    "watch_parcels",
    schedule=timedelta(minutes=5),
    start_date=datetime(2025, 1, 1),
    catchup=False,
    max_active_runs=1,
    tags=["example"],
) as watch:

    @task(on_failure_callback=SmtpNotifier(**TO, subject="Parcels wait for too long, or the check failed"))
    def check_oldest():
        waiting = ("available", "leased")
        messages = WorkflowHook().list_messages("parcels")
        created = [each.get("created_at") for each in messages if each.get("status") in waiting]
        latest = datetime.now(UTC) - LONGEST
        late = [each for each in created if each and datetime.fromisoformat(each) < latest]
        if late:
            raise ValueError(f"{len(late)} messages wait for longer than {LONGEST}, since {min(late)}")

    check_oldest()
