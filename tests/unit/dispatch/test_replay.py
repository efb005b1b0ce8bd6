"""A replay has the run id and the conf that the dispatcher would have given the message."""

from __future__ import annotations

import json
from typing import Any

import pytest

from airflow_provider_workflow.client.answers import lease
from airflow_provider_workflow.client.http_messages import Answer
from airflow_provider_workflow.dispatch.blame import Reason
from airflow_provider_workflow.dispatch.dead_letters import conf_of
from airflow_provider_workflow.dispatch.delivery import Delivery
from airflow_provider_workflow.dispatch.replay import NotReplayableError, Outcome, Replay, WrongRunError
from airflow_provider_workflow.dispatch.runs import DEAD_LETTER_PREFIX, TaskRuns, run_id_of
from airflow_provider_workflow.types import LeasedMessage
from tests.unit.fake_stats import FakeStats
from tests.unit.workbench import Workbench

INBOX_ID = "00000000-0000-4000-8000-000000000001"
PAYLOADS = {
    "plain": '{"n": 1}',
    "null": "null",
    "zero": "-0.0",
    "digits": "9" * 5000,
    "surrogate": '"\\ud800"',
    "text": '"caf\u00e9 \u2028"',
    **{f"depth {depth}": "[" * depth + "1" + "]" * depth for depth in (147, 148, 100_000)},
}
LONGEST = "x" * 222
"""The longest message id that a run id contains."""
IDS = ["a", "\\ud800 \u00e9\\u0000", LONGEST, LONGEST + "x"]


def leased_message(message_id: str = "a", payload: str = "{}") -> LeasedMessage:
    """A message as the client decodes it."""
    fields = f'"id": "{message_id}", "created_at": "2026-01-01T00:00:00Z", "payload": {payload}'
    attributes = '"message_attributes": {"lease_count": 3, "error_message": null}'
    text = f'{{"lease_id": "l", "results": [{{{fields}, {attributes}}}]}}'
    [message] = lease(Answer(201, {}, text.encode()))["results"]
    return message  # type: ignore[no-any-return]


def dead_letter_conf(
    message: LeasedMessage,
    target: str | None = "handle",
    connection_id: str = "workflow_default",
    inbox_id: str = INBOX_ID,
) -> dict[str, Any]:
    """The conf of its dead letter, as a database returns it."""
    run_id = run_id_of(message["id"], inbox_id)
    delivery = Delivery.of(inbox_id, message)
    conf = conf_of(delivery, connection_id, target, Reason.REJECTED, "a cause", run_id)
    text = json.dumps(conf, ensure_ascii=False)
    assert text.isascii()
    stored: dict[str, Any] = json.loads(text)
    return stored


@pytest.mark.parametrize("payload", PAYLOADS.values(), ids=PAYLOADS)
def test_the_run_has_the_conf_of_a_dispatch(bench: Workbench, payload: str) -> None:
    bench.put("a")
    held_lease = bench.lease()
    message = leased_message(payload=payload)
    held_lease.deliveries[:] = [Delivery.of(bench.inbox_id, message)]
    bench.ready_dispatcher().drain(held_lease)
    dispatched = bench.supervisor.runs["handle", bench.run_id("a")]

    replay = Replay.of(
        dead_letter_conf(message, connection_id=bench.hook.workflow_conn_id, inbox_id=bench.inbox_id)
    )

    # As text, as NaN and the like are never equal.
    assert json.dumps(replay.conf, sort_keys=True) == json.dumps(dispatched, sort_keys=True)
    assert (replay.target_dag_id, replay.run_id) == ("handle", bench.run_id("a"))


@pytest.mark.parametrize("message_id", IDS)
def test_the_id_of_the_run_follows_from_the_exact_id_of_the_message(message_id: str) -> None:
    message = leased_message(message_id)
    dead_letter_run_id = run_id_of(message["id"], INBOX_ID, DEAD_LETTER_PREFIX)

    assert Replay.of(dead_letter_conf(message), dead_letter_run_id).run_id == run_id_of(
        message["id"], INBOX_ID
    )
    with pytest.raises(WrongRunError):
        Replay.of(dead_letter_conf(message), dead_letter_run_id + "0")


@pytest.mark.parametrize(
    "change",
    [
        {"message_json": None},
        {"message_json": "{"},
        {"message_json": "[1]"},
        {"message_json": "{}"},
        {"message_json": '{"id": ""}'},
        {"message_json": '{"id": 7}'},
        {"connection_id": None},
        {"inbox_id": None},
        {"target_dag_id": ["handle"]},
    ],
)
def test_a_conf_that_is_no_dead_letter_is_rejected(change: dict[str, Any]) -> None:
    with pytest.raises(NotReplayableError):
        Replay.of({**dead_letter_conf(leased_message()), **change})


def test_it_is_started_once_and_counted_once(bench: Workbench, fake_stats: FakeStats) -> None:
    replay = Replay.of(dead_letter_conf(leased_message()))

    outcomes = [replay.start(TaskRuns(bench.ti), None, "a test") for _ in range(2)]

    assert outcomes == [("handle", Outcome.STARTED), ("handle", Outcome.EXISTING)]
    assert bench.supervisor.runs == {("handle", replay.run_id): replay.conf}
    assert bench.supervisor.requests[0].note == f"Message `a` of the inbox `{INBOX_ID}`, replayed by a test"
    assert fake_stats.totals == {"replayed": 1}


def test_another_target_starts_no_second_run(bench: Workbench) -> None:
    bench.supervisor.dags.add("other")
    replay = Replay.of(dead_letter_conf(leased_message()))
    replay.start(TaskRuns(bench.ti), None, "a test")

    assert replay.start(TaskRuns(bench.ti), "other", "a test") == ("handle", Outcome.EXISTING)
