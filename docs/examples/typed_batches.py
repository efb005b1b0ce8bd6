"""Stores the measurements of a region; a type checker knows the arguments of both calls."""

import logging
from datetime import datetime
from typing import TypedDict

from airflow.sdk import DAG

from airflow_provider_workflow.decorators.workflow_inbox import workflow_inbox_task
from airflow_provider_workflow.types import Message

log = logging.getLogger(__name__)


class Measurement(TypedDict):
    value: float


with DAG("store_typed_measurements", schedule=None, start_date=datetime(2025, 1, 1), tags=["example"]) as dag:

    @workflow_inbox_task(inbox="measurements", batch_size=100)
    def store(messages: list[Message[Measurement]], region: str) -> None:
        for message in messages:
            log.info("%s: %s", region, message["payload"]["value"])

    store(region="eu")
