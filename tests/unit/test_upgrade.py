"""
What a version stores in Airflow's database, and every later version must understand: triggers, what a
deferred sensor resumes with, and a lease on its way from triggerer to worker (``stored/VERSION.json``).
"""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_workflow.dispatch.runs import DEAD_LETTER_PREFIX, KEY_PREFIX, RUN_ID_PREFIX, run_id_of
from airflow_provider_workflow.triggers.event import WorkflowInboxEventTrigger
from airflow_provider_workflow.triggers.notice import WorkflowInboxNoticeTrigger
from tests.unit.sensors.tasks import Task
from tests.unit.workbench import INBOX, Workbench

FILES = {path.stem: path.read_text() for path in (Path(__file__).parent / "stored").iterdir()}
UNRELEASED = "unreleased"
"""The file of the code as it is; a release stores it under its version."""
TRIGGERS = [
    pytest.param(path, kwargs, id=f"{version}-{path.rpartition('.')[2]}")
    for version, text in FILES.items()
    for path, kwargs in json.loads(text)["triggers"]
]


@pytest.mark.since(3, 3, "the event trigger")
@pytest.mark.parametrize(("path", "kwargs"), TRIGGERS)
def test_a_stored_trigger_is_rebuilt_with_what_it_was_given(path: str, kwargs: dict[str, Any]) -> None:
    module, _, name = path.rpartition(".")
    path_now, kwargs_now = getattr(import_module(module), name)(**kwargs).serialize()

    assert path_now == path
    assert {name: kwargs_now[name] for name in kwargs} == kwargs


@pytest.mark.usefixtures("fake_clock")
@pytest.mark.parametrize("version", FILES)
def test_a_sensor_that_an_earlier_version_deferred_starts_the_runs_of_its_lease(
    bench: Workbench, version: str
) -> None:
    stored = json.loads(FILES[version])
    bench.put("a", "b")
    lease = bench.lease(seconds=300)
    text = json.dumps({**stored["lease"], "inbox_id": bench.inbox_id, "lease_id": lease.lease_id})
    event = {**stored["event"], "lease": text}
    task = Task(bench)

    result = task.run(
        lambda: task.sensor.resume_execution(
            stored["deferred"]["method_name"], {**stored["deferred"]["kwargs"], "event": event}, task.context
        )
    )

    assert result["started"] == {"count": 2, "ids": ["a", "b"]}
    assert bench.states == {}


@pytest.mark.usefixtures("fake_clock")
@pytest.mark.since(3, 3, "the event trigger")
def test_what_is_stored_now_is_what_the_file_of_the_next_release_has(bench: Workbench) -> None:
    """A difference is what a deployment meets during an upgrade."""
    deferral = Task(bench).execute()
    bench.put("a", "b")
    event = Task(bench).leased()
    lease = json.loads(event.pop("lease"))
    triggers = [
        deferral.trigger,
        WorkflowInboxEventTrigger(inbox=INBOX),
        WorkflowInboxNoticeTrigger(inbox=INBOX),
    ]

    assert json.loads(FILES[UNRELEASED]) == {
        "triggers": json.loads(json.dumps([trigger.serialize() for trigger in triggers])),
        "deferred": {"method_name": deferral.method_name, "kwargs": deferral.kwargs},
        "event": event,
        "lease": {**lease, "inbox_id": "INBOX_ID", "lease_id": "LEASE_ID"},
    }


SAFE, UNSAFE = "0195f3a0-0000-7000-8000-000000000001", "a b"
UNSAFE_DIGEST = "a72446e4ec4ec340eea56b04fd5394608009cfebaa3c7cdd6a7a412a557c861b"
KEY, KEY_DIGEST = (
    '["payload.order_id", "A-1"]',
    "38df943dacfa6ea7bec068149bf1de00ba7420d80bf69ff0911749175c0a7a99",
)


@pytest.mark.parametrize(
    ("message_id", "prefix", "run_id"),
    [
        (SAFE, RUN_ID_PREFIX, f"workflow__{SAFE}__73156baca3657d24"),
        (SAFE, DEAD_LETTER_PREFIX, f"workflow__dead__{SAFE}__73156baca3657d24"),
        (UNSAFE, RUN_ID_PREFIX, f"workflow__{UNSAFE_DIGEST}"),
        (UNSAFE, DEAD_LETTER_PREFIX, f"workflow__dead__{UNSAFE_DIGEST}"),
        (KEY, KEY_PREFIX, f"workflow__key__{KEY_DIGEST}"),
    ],
)
def test_a_message_that_an_earlier_version_started_finds_its_run(
    message_id: str, prefix: str, run_id: str
) -> None:
    """
    The ids that 0.2.0 gave, and for a business key those of the first version whose ids include the
    expression. With another one the message, or the key, would start a second run.
    """
    assert run_id_of(message_id, "3f9c1a52-7d1e-4b53-9a43-0c5d2f6b8e11", prefix) == run_id
