"""dag.test() makes no asset events: the task gets one that the test made."""

import json
import logging
from types import SimpleNamespace
from typing import Any

import airflow
import pytest

if airflow.__version__.startswith("3.2."):
    pytest.skip("WorkflowInboxEventTrigger needs Airflow 3.3", allow_module_level=True)

from inbox_events import alerts, on_alerts, trigger


def message(message_id, lease_count):
    attributes = {"lease_count": lease_count}
    return {"id": message_id, "payload": {"level": "error"}, "message_attributes": attributes}


def test_alerts_of_an_event_are_handled(caplog):
    caplog.set_level(logging.INFO)
    messages = json.dumps([message("a", 1), message("b", 2)])
    event = SimpleNamespace(extra={"payload": {"messages": messages}})

    handle: Any = on_alerts().get_task("handle")
    handle.python_callable(triggering_asset_events={alerts: [event]})

    assert "Alert a: {'level': 'error'}" in caplog.text
    assert "Alert b (again): {'level': 'error'}" in caplog.text


def test_the_events_start_the_dag():
    assert on_alerts().schedule == [alerts]
    assert [watcher.trigger for watcher in alerts.watchers] == [trigger]
