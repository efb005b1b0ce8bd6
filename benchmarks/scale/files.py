"""DAG files that watch many inboxes."""

from __future__ import annotations

from pathlib import Path

PER_FILE = 100
"""Inboxes of one file."""
POLL_SECONDS = 60.0
"""The interval of polls from the beginning, which is that of an idle inbox at default settings."""

ASSETS = """
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, Asset, AssetAny, AssetWatcher

from airflow_provider_workflow.triggers.notice import WorkflowInboxNoticeTrigger


def watched(name):
    trigger = WorkflowInboxNoticeTrigger(name, poll_interval={poll_seconds})
    return Asset(name, watchers=[AssetWatcher(name=name, trigger=trigger)])


with DAG("consumer_{first}", schedule=AssetAny(*[watched(f"inbox_{{n}}") for n in range({first}, {end})])):
    EmptyOperator(task_id="nothing")
"""
"""One DAG that all inboxes of the file start."""

DECORATED = """
from airflow.providers.standard.operators.empty import EmptyOperator

from airflow_provider_workflow.decorators import inbox_dag

for number in range({first}, {end}):

    @inbox_dag(inbox=f"inbox_{{number}}", dag_id=f"handle_{{number}}", poll_interval={poll_seconds})
    def handle(message):
        EmptyOperator(task_id="nothing")
"""
"""Two DAGs for each inbox, as users write them."""


def write_files(folder: Path, template: str, count: int, per_file: int = PER_FILE) -> int:
    """
    Write files that watch ``inbox_0`` and so on; return how many files.

    :param count: inboxes of all files.
    :param per_file: inboxes of one file.
    """
    firsts = range(0, count, per_file)
    for first in firsts:
        text = template.format(first=first, end=min(first + per_file, count), poll_seconds=POLL_SECONDS)
        (folder / f"watched_{first}.py").write_text(text)
    return len(firsts)
