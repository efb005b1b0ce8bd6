"""How the operators that make a few calls of the service are retried: long enough for an hourly limit."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from types import SimpleNamespace
from typing import Any

import pendulum
import pytest
from airflow.models.taskinstance import TaskInstance
from airflow.providers.common.compat.sdk import AirflowFailException
from airflow.sdk import DAG
from airflow.serialization.serialized_objects import DagSerialization

from airflow_provider_workflow.client import errors
from airflow_provider_workflow.emulator.clock import ManualClock
from airflow_provider_workflow.emulator.server import EmulatorServer
from airflow_provider_workflow.operators.inbox import WorkflowAcknowledgeOperator, WorkflowReleaseOperator
from airflow_provider_workflow.operators.manage_inbox import (
    WorkflowDeleteInboxOperator,
    WorkflowEnsureInboxOperator,
    WorkflowPauseInboxOperator,
    WorkflowResumeInboxOperator,
)
from airflow_provider_workflow.operators.workflows import (
    WorkflowGuessOperator,
    WorkflowTemplatesOperator,
    WorkflowUnenrollOperator,
)
from tests.unit.client.isolation import forget
from tests.unit.fake_clock import FakeClock

LEASE = {"inbox_id": "i", "lease_id": "l", "messages": [{"id": "m"}]}
SUBSCRIBED = {"name": "orders", "app_key": "shop", "action_key": "new_order"}
OPERATORS: dict[str, tuple[Any, dict[str, Any]]] = {
    "guess": (WorkflowGuessOperator, {"description": "When an order arrives in the shop, send an email"}),
    "templates": (WorkflowTemplatesOperator, {}),
    "unenroll": (WorkflowUnenrollOperator, {"enrollment_id": "e"}),
    "ensure": (WorkflowEnsureInboxOperator, SUBSCRIBED),
    "pause": (WorkflowPauseInboxOperator, {"inbox": "orders"}),
    "resume": (WorkflowResumeInboxOperator, {"inbox": "orders"}),
    "delete": (WorkflowDeleteInboxOperator, {"inbox": "orders"}),
    "acknowledge": (WorkflowAcknowledgeOperator, {"lease": LEASE}),
    "release": (WorkflowReleaseOperator, {"lease": LEASE}),
}


@pytest.fixture(params=OPERATORS)
def task(request: pytest.FixtureRequest) -> Any:
    """Each of the operators, in a DAG."""
    return operator(request.param)


def operator(name: str, **arguments: Any) -> Any:
    kind, own = OPERATORS[name]
    with DAG("d", schedule=None, start_date=datetime(2025, 1, 1)):
        return kind(task_id="t", **{**own, **arguments})


def pauses(task: Any) -> Iterator[float]:
    """Seconds before each retry of a task, as the scheduler computes them."""
    read = DagSerialization.from_dict(DagSerialization.to_dict(task.dag)).get_task(task.task_id)
    ended_at = pendulum.datetime(2026, 1, 1)
    for number in range(1, read.retries + 1):
        ti: Any = SimpleNamespace(
            task=read,
            dag_id="d",
            task_id="t",
            logical_date=None,
            try_number=number,
            state=None,
            end_date=ended_at,
            retry_delay_override=None,
        )
        yield (TaskInstance.next_retry_datetime(ti) - ended_at).total_seconds()


def test_the_retries_of_each_operator_outlast_an_hourly_limit(task: Any) -> None:
    assert sum(pauses(task)) > errors.MAX_WAIT_SECONDS
    # Without what Airflow adds at random.
    first, most = task.retry_delay.total_seconds(), task.max_retry_delay.total_seconds()
    assert sum(min(first * 2**number, most) for number in range(task.retries)) > errors.MAX_WAIT_SECONDS


def tries(task: Any, fake_clock: FakeClock) -> Any:
    """What a task returns after its retries, each in a process of its own."""
    for number, seconds in enumerate([*pauses(task), None], start=1):
        forget()
        try:
            return task.execute({"ti": SimpleNamespace(try_number=number)})
        except AirflowFailException:
            raise
        except Exception:
            if seconds is None:
                raise
            fake_clock.advance(seconds)
    return None


@pytest.mark.specification("15 per hour")
def test_a_guess_at_the_limit_succeeds_in_the_next_window(
    connected_emulator: EmulatorServer, clock: ManualClock, fake_clock: FakeClock
) -> None:
    fake_clock.moved_along.append(clock)
    connected_emulator.store.configure(rate_limit=1)
    assert operator("guess").execute({})["title"]

    guessed = tries(operator("guess"), fake_clock)

    assert guessed["prefilled_url"]
    assert 3600 <= fake_clock.elapsed < 3600 + 600, "at most the longest pause after the window has ended"
    assert fake_clock.slept == [], "no try holds its slot meanwhile"


def in_try(number: int, task: Any) -> Exception:
    """The error of a try of a task."""
    with pytest.raises(Exception) as error_info:
        task.execute({"ti": SimpleNamespace(try_number=number)})
    return error_info.value


def test_an_error_that_lasts_fails_a_task_in_its_second_try(
    task: Any, connected_emulator: EmulatorServer
) -> None:
    connected_emulator.fault("status", status=403, times=None)
    first, second = in_try(1, task), in_try(2, task)

    assert isinstance(first, errors.AuthenticationError)
    assert isinstance(second, AirflowFailException)
    assert str(second) == str(first)


@pytest.mark.usefixtures("fake_clock")
def test_an_error_that_may_pass_is_retried_to_the_end(task: Any, connected_emulator: EmulatorServer) -> None:
    connected_emulator.fault("status", status=503, times=None)
    for number in (1, 2, task.retries):
        assert isinstance(in_try(number, task), errors.ServerError)


def test_a_wrong_argument_and_an_inbox_that_does_not_become_active_last_too(
    connected_emulator: EmulatorServer, clock: ManualClock, fake_clock: FakeClock
) -> None:
    fake_clock.moved_along.append(clock)
    connected_emulator.store.configure(initializing_seconds=10_000)
    for name, arguments, text in (
        ("acknowledge", {"lease": 5}, "lease must be what"),
        ("ensure", {}, "was not active within 600 s"),
    ):
        task = operator(name, **arguments)
        assert text in str(in_try(1, task))
        second = in_try(2, task)
        assert isinstance(second, AirflowFailException)
        assert text in str(second)


DICTIONARIES = OPERATORS.keys() - {"templates"}
"""The operators that return a dictionary."""


@pytest.mark.parametrize("name", OPERATORS)
def test_each_field_of_a_returned_dictionary_is_an_output(name: str) -> None:
    """As ``ensure.output["name"]``."""
    kind, own = OPERATORS[name]

    assert operator(name).multiple_outputs is (name in DICTIONARIES)
    assert operator(name, multiple_outputs=False).multiple_outputs is False
    assert operator(name, default_args={"multiple_outputs": False}).multiple_outputs is False
    with DAG("mapped", schedule=None, start_date=datetime(2025, 1, 1)):
        mapped = kind.partial(task_id="t", **own).expand_kwargs([{}])
    assert mapped.partial_kwargs["multiple_outputs"] is (name in DICTIONARIES)
