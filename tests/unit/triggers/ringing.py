"""A doorbell to be tested, and what it says."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from airflow_provider_workflow import quarantine
from airflow_provider_workflow.triggers.notice import WorkflowInboxNoticeTrigger
from tests.unit.workbench import INBOX


def trigger(**arguments: Any) -> WorkflowInboxNoticeTrigger:
    return WorkflowInboxNoticeTrigger(**{"inbox": INBOX, **arguments})


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What the trigger itself logged."""
    names = ("triggers.ringing", "quarantine")
    return [f"{each.levelname} {each.getMessage()}" for each in caplog.records if each.name.endswith(names)]


@pytest.fixture(autouse=True)
def said(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO)
    quarantine._reported.clear()
    return caplog
