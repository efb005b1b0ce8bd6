"""A notice trigger to be tested, and what it logs."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from airflow_provider_workflow.triggers.notice import WorkflowInboxNoticeTrigger
from tests.unit.workbench import INBOX


def trigger(**arguments: Any) -> WorkflowInboxNoticeTrigger:
    return WorkflowInboxNoticeTrigger(**{"inbox": INBOX, **arguments})


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What the trigger itself logged, but for how it waits, which it says once when it begins."""
    names = ("triggers.notice", "quarantine")
    told = [each for each in caplog.records if each.name.endswith(names)]
    texts = [f"{each.levelname} {each.getMessage()}" for each in told]
    return [text for text in texts if "waiting for messages" not in text]


@pytest.fixture(autouse=True)
def said(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO)
    return caplog
