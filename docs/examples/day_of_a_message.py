"""Files an order under the day of its run: runs of messages have no logical date, and so no `ds`."""

from datetime import datetime

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG, task

with DAG(
    "file_order",
    schedule=None,
    start_date=datetime(2025, 1, 1),
    default_args={"retries": 3},
    tags=["example"],
) as dag:
    file_order = BashOperator(
        task_id="file_order",
        bash_command='echo "Filed under $DAY, sent at $SENT"',
        env={
            "DAY": "{{ dag_run.run_after | ds }}",
            "SENT": "{{ dag_run.conf['message']['created_at'] }}",
        },
    )

    @task
    def day(dag_run=None):
        return dag_run.run_after.date().isoformat()

    file_order >> day()
