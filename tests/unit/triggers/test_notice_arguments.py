"""What the doorbell of an inbox is made of: arguments that are checked, and come back as they went."""

from __future__ import annotations

import json
from typing import Any

import pytest
from airflow.sdk import Asset, AssetWatcher
from airflow.triggers.base import BaseEventTrigger

from airflow_provider_workflow.triggers.notice import WorkflowInboxNoticeTrigger
from tests.unit.triggers.notices import said, trigger

__all__ = ["said"]


class Subclass(WorkflowInboxNoticeTrigger):
    """A trigger of somebody else's."""


def test_it_comes_back_from_what_it_serialises() -> None:
    given = {
        "inbox": "orders",
        "workflow_conn_id": "other",
        "renotify_seconds": 30,
        "poll_interval": 2,
        "max_poll_interval": 20.5,
        "wake_on_events": False,
    }
    path, kwargs = WorkflowInboxNoticeTrigger(**given).serialize()

    assert path == "airflow_provider_workflow.triggers.notice.WorkflowInboxNoticeTrigger"
    assert kwargs == given
    assert WorkflowInboxNoticeTrigger(**json.loads(json.dumps(kwargs))).serialize() == (path, kwargs)


def test_a_subclass_serialises_as_itself() -> None:
    assert Subclass("orders").serialize()[0] == f"{__name__}.Subclass"


def test_airflow_takes_two_watchers_with_the_same_arguments_for_one_trigger() -> None:
    hashes = {BaseEventTrigger.hash(*trigger(**arguments).serialize()) for arguments in ({}, {})}
    others = {BaseEventTrigger.hash(*trigger(inbox=name).serialize()) for name in ("a", "b")}

    assert len(hashes) == 1
    assert len(hashes | others) == 3


def test_airflow_takes_it_for_the_trigger_of_an_asset() -> None:
    watcher = AssetWatcher(name="orders", trigger=trigger())

    assert Asset("orders", watchers=[watcher]).watchers == [watcher]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"inbox": ""}, "inbox must be a string that is not empty"),
        ({"workflow_conn_id": " "}, "workflow_conn_id must be a string that is not empty"),
        ({"renotify_seconds": 4.9}, "renotify_seconds must be a number of seconds of 5 or more, not 4.9"),
        ({"renotify_seconds": "60"}, "renotify_seconds must be a number of seconds of 5 or more, not '60'"),
        ({"renotify_seconds": float("inf")}, "renotify_seconds must be a number of seconds of 5 or more"),
        ({"poll_interval": 90}, r"poll_interval \(90 s\) must be at most max_poll_interval \(60 s\)"),
        ({"wake_on_events": "False"}, "wake_on_events must be True or False, not 'False'"),
    ],
)
def test_a_wrong_argument_is_named_where_the_dag_is_parsed(arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=f"^{text}"):
        trigger(**arguments)


async def test_in_a_triggerer_a_wrong_argument_is_the_one_error_that_it_survives() -> None:
    with pytest.raises(TypeError, match="renotify_seconds"):
        trigger(renotify_seconds=1)
