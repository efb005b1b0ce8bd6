"""Messages of an SQS queue, for which a sensor waits."""

import json
import os
from datetime import datetime

from airflow.providers.amazon.aws.sensors.sqs import SqsSensor
from airflow.sdk import dag, task


@dag(schedule="@continuous", start_date=datetime(2025, 1, 1), max_active_runs=1)
def sqs_sensor():
    # At its fastest: the longest wait of a poll, and no pause between two.
    sensor = SqsSensor(
        task_id="wait",
        sqs_queue=os.environ["PEER_SQS_SENSOR"],
        deferrable=True,
        wait_time_seconds=20,
        poke_interval=0,
    )

    @task
    def handle(messages):
        return [json.loads(message["Body"])["number"] for message in messages]

    handle(sensor.output["messages"])


sqs_sensor()
