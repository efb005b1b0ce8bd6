"""The event trigger's arguments: checked where the DAG is parsed, serialized, and what shapes its polling."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from airflow.exceptions import AirflowOptionalProviderFeatureException

from airflow_provider_workflow.triggers.event import WorkflowInboxEventTrigger
from tests.unit.loading import AIRFLOW, loaded
from tests.unit.test_parse_weight import HEAVY

pytestmark = pytest.mark.since(3, 3, "the acknowledging of asset events")

GIVEN = {
    "inbox": "orders",
    "match": "payload.type == 'order'",
    "lease_limit": 7,
    "lease_seconds": 900,
    "min_interval": 4.5,
    "workflow_conn_id": "other",
    "poll_interval": 2,
    "max_poll_interval": 20,
    "wake_on_events": False,
    "per_message": False,
    "queue": None,
}


class Subclass(WorkflowInboxEventTrigger):
    """A trigger of somebody else's."""


def test_a_trigger_comes_back_from_what_it_serializes() -> None:
    path, kwargs = WorkflowInboxEventTrigger(**GIVEN).serialize()

    assert path == "airflow_provider_workflow.triggers.event.WorkflowInboxEventTrigger"
    assert kwargs == GIVEN
    assert WorkflowInboxEventTrigger(**json.loads(json.dumps(kwargs))).serialize() == (path, kwargs)


def test_a_subclass_serializes_as_itself() -> None:
    assert Subclass("orders").serialize()[0] == f"{__name__}.Subclass"


def test_equal_triggers_are_one_for_airflow() -> None:
    one, other = (WorkflowInboxEventTrigger(**GIVEN).serialize() for _ in range(2))

    assert WorkflowInboxEventTrigger.hash(*one) == WorkflowInboxEventTrigger.hash(*other)


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"inbox": ""}, "inbox"),
        ({"workflow_conn_id": ""}, "workflow_conn_id"),
        ({"lease_limit": 101}, "lease_limit"),
        ({"min_interval": 0}, "min_interval"),
        ({"poll_interval": 70}, "max_poll_interval"),
        ({"wake_on_events": "False"}, "wake_on_events"),
        ({"per_message": "False"}, "per_message must be True or False"),
        ({"queue": " "}, "queue must be a string that is not empty"),
        ({"match": "payload.["}, "match is no valid JMESPath expression"),
    ],
)
def test_a_wrong_argument_fails_where_the_dag_is_parsed(wrong: dict[str, Any], field: str) -> None:
    with pytest.raises(ValueError, match=field.replace("[", r"\[")):
        WorkflowInboxEventTrigger(**{"inbox": "orders", **wrong})


async def test_in_a_triggerer_a_wrong_argument_is_the_one_error_that_it_survives() -> None:
    with pytest.raises(TypeError, match="lease_limit"):
        WorkflowInboxEventTrigger("orders", lease_limit=0)


@pytest.mark.parametrize("seconds", [299, 300])
def test_a_lease_that_airflow_may_outlast_is_refused(seconds: int) -> None:
    with pytest.raises(ValueError, match="shared_stream_ack_timeout"):
        WorkflowInboxEventTrigger("orders", lease_seconds=seconds)


def test_a_lease_is_compared_with_what_is_configured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__TRIGGERER__SHARED_STREAM_ACK_TIMEOUT", "60")
    assert WorkflowInboxEventTrigger("orders", lease_seconds=61).lease_seconds == 61

    monkeypatch.setenv("AIRFLOW__TRIGGERER__SHARED_STREAM_ACK_TIMEOUT", "700")
    with pytest.raises(ValueError, match=r"\(600 s\) must be more than .* \(700 s\)"):
        WorkflowInboxEventTrigger("orders")


def test_on_an_older_airflow_one_sentence_names_the_version_and_the_cure(
    release: Callable[[int, int], None],
) -> None:
    release(3, 2)
    with pytest.raises(AirflowOptionalProviderFeatureException) as raised:
        WorkflowInboxEventTrigger("orders")

    assert str(raised.value) == (
        "WorkflowInboxEventTrigger needs Airflow 3.3 or later, and this is 3.2.0;"
        " use WorkflowInboxNoticeTrigger with WorkflowInboxDispatchOperator instead."
    )


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (
            {"per_message": True},
            "WorkflowInboxEventTrigger(per_message=True) needs Airflow 3.4 or later, and this is 3.3.0;"
            " use WorkflowInboxNoticeTrigger with WorkflowInboxDispatchOperator instead.",
        ),
        (
            {"queue": "watchers"},
            "WorkflowInboxEventTrigger(queue=...) needs Airflow 3.4 or later, and this is 3.3.0;"
            " leave it out, and every triggerer may run the watcher.",
        ),
    ],
)
def test_what_came_with_airflow_3_4_says_so_on_3_3(
    release: Callable[[int, int], None], arguments: dict[str, Any], text: str
) -> None:
    release(3, 3)
    with pytest.raises(AirflowOptionalProviderFeatureException) as raised:
        WorkflowInboxEventTrigger("orders", **arguments)

    assert str(raised.value) == text


def test_what_needs_airflow_3_4_is_serialized(release: Callable[[int, int], None]) -> None:
    release(3, 4)
    path, kwargs = WorkflowInboxEventTrigger("orders", per_message=True, queue="watchers").serialize()

    assert (kwargs["per_message"], kwargs["queue"]) == (True, "watchers")
    assert WorkflowInboxEventTrigger(**kwargs).serialize() == (path, kwargs)


@pytest.mark.since(3, 4, "queues of triggerers")
def test_airflow_stores_the_queue_of_triggerers_beside_it() -> None:
    from airflow.serialization.encoders import encode_trigger

    assert encode_trigger(WorkflowInboxEventTrigger("orders", queue="watchers"))["queue"] == "watchers"


async def test_an_older_triggerer_survives_one_that_was_stored_before_airflow_was_downgraded(
    release: Callable[[int, int], None],
) -> None:
    release(3, 2)
    with pytest.raises(TypeError, match=r"needs Airflow 3\.3 or later"):
        WorkflowInboxEventTrigger("orders")


@pytest.mark.slow
def test_the_module_imports_where_airflow_has_no_shared_streams() -> None:
    code = (
        "import sys; sys.modules['airflow.triggers.shared_stream'] = None\n"
        "import airflow_provider_workflow.triggers.event"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_a_dag_file_that_imports_it_loads_nothing_that_only_a_triggerer_needs() -> None:
    more = loaded("import airflow_provider_workflow.triggers.event", AIRFLOW)

    assert (
        more & {*HEAVY, "airflow.triggers.shared_stream", "airflow_provider_workflow.hooks.workflow"} == set()
    )
    assert "airflow_provider_workflow.triggers.event_producer" not in more


def test_watchers_that_differ_only_in_how_they_make_events_share_a_poller(
    release: Callable[[int, int], None],
) -> None:
    release(3, 4)
    one = WorkflowInboxEventTrigger("orders")
    other = WorkflowInboxEventTrigger("orders", per_message=True)

    assert one.shared_stream_key() == other.shared_stream_key()


def test_watchers_that_differ_only_in_match_share_a_poller() -> None:
    one = WorkflowInboxEventTrigger(**GIVEN)
    other = WorkflowInboxEventTrigger(**{**GIVEN, "match": None})

    assert one.shared_stream_key() == other.shared_stream_key()


def test_whatever_else_shapes_the_polling_is_part_of_the_key() -> None:
    changes: list[dict[str, Any]] = [
        {"inbox": "invoices"},
        {"lease_limit": 8},
        {"lease_seconds": 901},
        {"min_interval": 5},
        {"workflow_conn_id": "another"},
        {"poll_interval": 3},
        {"max_poll_interval": 30},
        {"wake_on_events": True},
    ]
    key = WorkflowInboxEventTrigger(**GIVEN).shared_stream_key()
    others = [WorkflowInboxEventTrigger(**{**GIVEN, **each}).shared_stream_key() for each in changes]

    assert [each for each, other in zip(changes, others, strict=True) if other == key] == []


def test_every_argument_of_the_polling_is_part_of_the_key() -> None:
    trigger = WorkflowInboxEventTrigger(**GIVEN)

    without = ("match", "per_message", "queue")  # a filter, the shape of events, and where the poller runs
    assert set(trigger.shared_stream_key()[1:]) == {
        value for name, value in GIVEN.items() if name not in without
    }  # type: ignore[index]


def test_a_producer_is_made_of_the_arguments_and_opens_nothing() -> None:
    trigger = WorkflowInboxEventTrigger(**GIVEN)
    producer = WorkflowInboxEventTrigger.create_shared_stream_producer(trigger.serialize()[1])

    assert producer.options.inbox == "orders"  # type: ignore[attr-defined]
    assert producer.options.min_interval == 4.5  # type: ignore[attr-defined]


async def test_it_does_not_run_by_itself() -> None:
    with pytest.raises(NotImplementedError, match="AssetWatcher"):
        await anext(WorkflowInboxEventTrigger("orders").run())
