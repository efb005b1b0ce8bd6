"""dag.test() makes no asset events: the task gets one that the test made."""

import json
import logging
from types import SimpleNamespace

import airflow
import jmespath
import pytest

if airflow.__version__.startswith("3.2."):
    pytest.skip("WorkflowInboxEventTrigger needs Airflow 3.3", allow_module_level=True)

from inbox_events import alerts, on_alerts, trigger


def test_alerts_of_an_event_are_handled(caplog):
    caplog.set_level(logging.INFO)
    first = {"id": "a", "payload": {"level": "error"}, "redelivered": False}
    second = {"id": "b", "payload": {"level": "error"}, "redelivered": True}
    event = SimpleNamespace(extra={"payload": {"messages": json.dumps([first, second])}})

    on_alerts().get_task("handle").python_callable(triggering_asset_events={alerts: [event]})

    assert "Alert a: {'level': 'error'}" in caplog.text
    assert "Alert b (again): {'level': 'error'}" in caplog.text


def test_only_errors_are_passed_on():
    payloads = [{"level": "error"}, {"level": "info"}, {}, None]

    passed_on = [each for each in payloads if jmespath.search(trigger.match, {"payload": each})]

    assert passed_on == [{"level": "error"}]


def test_the_events_start_the_dag():
    assert on_alerts().schedule == [alerts]
    assert [watcher.trigger for watcher in alerts.watchers] == [trigger]
