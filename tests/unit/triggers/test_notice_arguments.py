"""What the doorbell of an inbox is made of: arguments that are checked, and come back as they went."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from airflow.exceptions import AirflowOptionalProviderFeatureException
from airflow.sdk import Asset, AssetWatcher
from airflow.triggers.base import BaseEventTrigger

from airflow_provider_workflow.triggers.notice import WorkflowInboxNoticeTrigger
from tests.unit.triggers.notices import said, trigger

__all__ = ["said"]


class Subclass(WorkflowInboxNoticeTrigger):
    """A trigger of somebody else's."""


def test_it_comes_back_from_what_it_serializes() -> None:
    given = {
        "inbox": "orders",
        "workflow_conn_id": "other",
        "renotify_seconds": 30,
        "poll_interval": 2,
        "max_poll_interval": 20.5,
        "wake_on_events": False,
        "queue": None,
    }
    path, kwargs = WorkflowInboxNoticeTrigger(**given).serialize()

    assert path == "airflow_provider_workflow.triggers.notice.WorkflowInboxNoticeTrigger"
    assert kwargs == given
    assert WorkflowInboxNoticeTrigger(**json.loads(json.dumps(kwargs))).serialize() == (path, kwargs)


def test_a_subclass_serializes_as_itself() -> None:
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
        ({"queue": ""}, "queue must be a string that is not empty"),
        ({"queue": "q" * 257}, "queue must have at most 256 characters, not 257"),
    ],
)
def test_a_wrong_argument_is_named_where_the_dag_is_parsed(arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=f"^{text}"):
        trigger(**arguments)


async def test_in_a_triggerer_a_wrong_argument_is_the_one_error_that_it_survives() -> None:
    with pytest.raises(TypeError, match="renotify_seconds"):
        trigger(renotify_seconds=1)


def test_a_queue_of_triggerers_is_serialized(release: Callable[[int, int], None]) -> None:
    release(3, 4)
    path, kwargs = trigger(queue="watchers").serialize()
    assert kwargs["queue"] == "watchers"
    assert WorkflowInboxNoticeTrigger(**kwargs).serialize() == (path, kwargs)


def test_a_queue_needs_airflow_3_4(release: Callable[[int, int], None]) -> None:
    release(3, 3)
    with pytest.raises(AirflowOptionalProviderFeatureException) as raised:
        trigger(queue="watchers")

    assert str(raised.value) == (
        "WorkflowInboxNoticeTrigger(queue=...) needs Airflow 3.4 or later, and this is 3.3.0;"
        " leave it out, and every triggerer may run the watcher."
    )


@pytest.mark.since(3, 4, "queues of triggerers")
def test_airflow_stores_the_queue_beside_the_trigger() -> None:
    from airflow.serialization.encoders import encode_trigger

    assert encode_trigger(trigger(queue="watchers"))["queue"] == "watchers"
    assert "queue" not in encode_trigger(trigger())
