"""Messages for which the function of a batch fails: deliveries are not wasted, and none is lost."""

from __future__ import annotations

import contextlib
import logging
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowSkipException

from airflow_provider_workflow.dispatch.batch_function import (
    UnknownMessagesError,
)
from airflow_provider_workflow.dispatch.dead_letters import RUN_PREFIX, message_of
from airflow_provider_workflow.dispatch.failed_messages import FailedMessagesError
from airflow_provider_workflow.dispatch.rejections import TargetError
from airflow_provider_workflow.dispatch.runs import run_id_of
from tests.unit.batching import NAMED, RAISED, Function, batches, counts_of, retry
from tests.unit.fake_clock import FakeClock
from tests.unit.fakes import api_error
from tests.unit.workbench import Workbench

# A function that raises


def test_a_batch_for_which_the_function_raises_is_released_and_fails_the_task(bench: Workbench) -> None:
    bench.put("a", "b", "c")

    with pytest.raises(ValueError, match="cannot read"):
        batches(bench, Function({"b"}), batch_size=2).run()
    assert bench.states == {"a": "available", "b": "available", "c": "available"}
    assert counts_of(bench) == {"a": 1, "b": 1, "c": 0}


def test_batches_before_the_one_that_fails_stay_acknowledged(bench: Workbench) -> None:
    bench.put("a", "b", "c", "d")

    with pytest.raises(ValueError, match="cannot read"):
        batches(bench, Function({"c"}), batch_size=2).run()
    assert bench.states == {"c": "available", "d": "available"}


def test_a_message_that_is_alone_in_its_batch_is_released_at_the_end_of_the_task(bench: Workbench) -> None:
    states: list[dict[str, str]] = []
    function = Function({"a"}, meanwhile=lambda ids: states.append(bench.states))
    bench.put("a", "b")

    with pytest.raises(ValueError, match="cannot read"):
        batches(bench, function, batch_size=1).run()
    # It was not leased again by the same task.
    assert function.ids == [["a"], ["b"]]
    assert states[1] == {"a": "leased", "b": "leased"}
    assert bench.states == {"a": "available"}


@pytest.mark.parametrize(("failed", "first"), [(1, 1), (0, 3)])
def test_a_dag_run_without_a_date_begins_with_one_message_where_runs_of_its_dag_have_failed(
    bench: Workbench, failed: int, first: int
) -> None:
    bench.put(*"abc")
    bench.ti.failed_runs = failed
    function = Function()
    batches(bench, function).run()

    assert len(function.ids[0]) == first
    assert sorted(each for ids in function.ids for each in ids) == ["a", "b", "c"]


def test_a_retry_begins_with_one_message_while_the_function_is_broken(bench: Workbench) -> None:
    retry(bench)
    bench.put("a", "b", "c")
    function = Function({"a", "b", "c"})

    with pytest.raises(ValueError, match="cannot read"):
        batches(bench, function).run()
    assert function.ids == [["a"]]
    assert sorted(counts_of(bench).values()) == [0, 0, 1]
    assert bench.sent("lease") == [{"lease_limit": 1, "lease_seconds": 3600}]


def test_a_retry_whose_first_message_is_processed_goes_on_with_whole_batches(bench: Workbench) -> None:
    retry(bench)
    bench.put("a", "b", "c")
    function = Function()
    batches(bench, function, max_batches=1).run()

    assert function.ids == [["a"], ["b", "c"]]


def test_a_function_that_fails_for_hours_leaves_the_last_deliveries_to_their_leases(bench: Workbench) -> None:
    bench.put("a")
    for _ in range(6):
        retry(bench)
        with contextlib.suppress(ValueError):
            batches(bench, Function({"a"})).run()

    assert bench.states == {"a": "leased"}
    assert counts_of(bench) == {"a": 3}


def test_a_message_with_a_high_delivery_count_is_given_alone_and_first(bench: Workbench) -> None:
    states: list[dict[str, str]] = []
    function = Function(meanwhile=lambda ids: states.append(bench.states))
    bench.put("a", "b")
    bench.put("old", lease_count=2)
    batches(bench, function).run()

    assert function.ids == [["old"], ["a", "b"]]
    assert "old" not in states[1]


def test_a_poison_message_that_is_alone_fails_no_other_message(bench: Workbench) -> None:
    bench.put("poison", lease_count=2)
    bench.put("a", "b")
    function = Function({"poison"})

    with pytest.raises(ValueError, match="cannot read"):
        batches(bench, function).run()
    assert function.ids == [["poison"], ["a", "b"]]
    assert bench.states == {"poison": "leased"}


def test_a_function_that_fails_for_two_messages_alone_is_called_for_no_third(bench: Workbench) -> None:
    bench.put("a", "b", "c", lease_count=2)
    function = Function({"a", "b", "c"})

    with pytest.raises(ValueError, match="cannot read"):
        batches(bench, function).run()
    assert len(function.given) == 2
    assert sorted(bench.states.values()) == ["available", "leased", "leased"]


def test_a_skipped_task_releases_its_batch(bench: Workbench) -> None:
    def skip(ids: list[str]) -> None:
        raise AirflowSkipException

    bench.put("a")
    with pytest.raises(AirflowSkipException):
        batches(bench, Function(meanwhile=skip)).run()
    assert bench.states == {"a": "available"}


# Messages that the function names


def test_of_a_batch_with_failed_messages_the_others_are_acknowledged(bench: Workbench) -> None:
    function = Function({"b", "d"}, names=True)
    bench.put("a", "b", "c", "d", "e")

    with pytest.raises(FailedMessagesError) as raised:
        batches(bench, function, batch_size=3).run()
    assert function.ids == [["a", "b", "c"], ["d", "e"]]
    assert bench.states == {"b": "available", "d": "available"}
    assert f"2 messages failed and were not acknowledged: b: {NAMED}; d: {NAMED}" in str(raised.value)


def test_a_task_whose_first_failed_lease_expires_leases_nothing_more(
    bench: Workbench, fake_clock: FakeClock
) -> None:
    fake_clock.moved_along.append(bench.service.store.clock)  # type: ignore[arg-type]
    function = Function({"a"}, names=True, meanwhile=lambda ids: fake_clock.advance(200))
    bench.put("a", "b", "c", "d", "e", "f")

    with pytest.raises(FailedMessagesError):
        batches(bench, function, batch_size=2).run()
    assert function.ids == [["a", "b"], ["c", "d"]]


def test_a_batch_of_which_all_messages_failed_is_the_last_one(bench: Workbench) -> None:
    function = Function({"a", "b"}, names=True)
    bench.put("a", "b", "c", "d")

    with pytest.raises(FailedMessagesError):
        batches(bench, function, batch_size=2).run()
    assert function.ids == [["a", "b"]]
    assert set(bench.states.values()) == {"available"}


def test_a_failed_message_keeps_its_last_deliveries_for_later(bench: Workbench) -> None:
    function = Function({"a"}, names=True)
    bench.put("a", lease_count=2)
    bench.put("b")

    with pytest.raises(FailedMessagesError):
        batches(bench, function).run()
    assert bench.states == {"a": "leased"}


def test_an_unknown_id_is_an_error_and_nothing_of_the_batch_is_acknowledged(bench: Workbench) -> None:
    class Wrong(Function):
        def __call__(self, messages: list[dict[str, Any]]) -> dict[str, str]:
            return {"a": NAMED, "x\n": NAMED}

    bench.put("a", "b")
    with pytest.raises(UnknownMessagesError, match=r"1 ids that are not in the batch, such as x\\n"):
        batches(bench, Wrong()).run()
    assert bench.states == {"a": "available", "b": "available"}


def test_more_failed_messages_than_fit_into_an_error_are_counted(bench: Workbench) -> None:
    bad = {f"bad{number:02}" for number in range(12)}
    bench.put("good", *sorted(bad))

    with pytest.raises(
        FailedMessagesError, match=r"12 messages failed .* bad09: named in MessagesFailed; \.\.\."
    ):
        batches(bench, Function(bad, names=True)).run()


# Dead letters


def test_a_failed_message_becomes_a_dead_letter_with_its_third_delivery(bench: Workbench) -> None:
    bench.allow_dead_letters()
    bench.put("a", "b")
    bench.put("bad", lease_count=2, payload={"n": [1, "a secret"]})
    result = batches(bench, Function({"bad"}, names=True)).run()

    [conf] = bench.dead_letters.values()
    assert message_of(conf)["payload"] == {"n": [1, "a secret"]}
    del conf["message_json"], conf["created_at"]
    assert conf == {
        "connection_id": bench.hook.workflow_conn_id,
        "inbox_id": bench.inbox_id,
        "message_id": "bad",
        "delivery_count": 3,
        "reason": "failed",
        "cause": NAMED,
        "target_dag_id": None,
    }
    assert result["dead_lettered"] == {"count": 1, "ids": ["bad"]}
    assert result["processed"]["count"] == 2
    assert bench.states == {}


def test_the_cause_of_a_dead_letter_is_the_type_of_the_exception_and_not_its_text(
    bench: Workbench, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    bench.allow_dead_letters()
    bench.put("bad", lease_count=2, payload={"n": "a secret"})
    batches(bench, Function({"bad"})).run()

    assert bench.dead_letters["bad"]["cause"] == RAISED
    assert "a secret" not in caplog.text


def test_a_dead_letter_is_stored_before_its_message_is_acknowledged(bench: Workbench) -> None:
    states: list[dict[str, str]] = []
    bench.supervisor.on_start = lambda: states.append(bench.states)
    bench.allow_dead_letters(after=1)
    bench.put("bad")
    batches(bench, Function({"bad"})).run()

    assert states == [{"bad": "leased"}]
    assert bench.states == {}


def test_what_the_function_does_with_a_payload_does_not_change_its_dead_letter(bench: Workbench) -> None:
    class Changing(Function):
        def __call__(self, messages: list[dict[str, Any]]) -> dict[str, str]:
            messages[0]["payload"].clear()
            messages[0]["message_attributes"].clear()
            return {"bad": NAMED}

    bench.allow_dead_letters(after=1)
    bench.put("bad", payload={"n": 1})
    batches(bench, Changing()).run()

    assert message_of(bench.dead_letters["bad"])["payload"] == {"n": 1}
    assert bench.dead_letters["bad"]["delivery_count"] == 1


def test_nothing_is_leased_if_the_dead_letter_dag_is_missing(bench: Workbench) -> None:
    bench.allow_dead_letters()
    bench.supervisor.dags.discard("dead")
    bench.put("a")

    with pytest.raises(TargetError):
        batches(bench, Function()).run()
    assert bench.service.count("lease") == 0


def test_a_message_that_the_dead_letter_dag_rejects_is_left_to_its_lease_and_fails_the_task(
    bench: Workbench,
) -> None:
    bench.allow_dead_letters(after=3)
    bench.supervisor.faults.append(lambda message: api_error(422))
    bench.put("bad", lease_count=2)

    with pytest.raises(FailedMessagesError):
        batches(bench, Function({"bad"}, names=True)).run()
    assert bench.states == {"bad": "leased"}


def test_a_redelivered_dead_letter_is_acknowledged_and_not_given_to_the_function(bench: Workbench) -> None:
    bench.allow_dead_letters()
    bench.supervisor.runs["dead", run_id_of("a", bench.inbox_id, RUN_PREFIX)] = {
        "connection_id": "workflow_default",
        "inbox_id": bench.inbox_id,
        "message_id": "a",
    }
    bench.put("a", lease_count=1)
    function = Function()
    result = batches(bench, function).run()

    assert function.given == []
    assert result["dead_lettered"]["ids"] == ["a"]
    assert bench.states == {}


def test_of_a_function_that_is_broken_a_message_becomes_no_dead_letter_before_its_last_safe_delivery(
    bench: Workbench,
) -> None:
    bench.allow_dead_letters()
    bench.put("third", lease_count=2)
    bench.put("fourth", lease_count=3)
    bench.put("a", "b")

    with pytest.raises(ValueError, match="cannot read"):
        batches(bench, Function({"third", "fourth", "a", "b"})).run()
    assert set(bench.dead_letters) == {"fourth"}
    assert bench.states == {"third": "available", "a": "available", "b": "available"}


def test_a_message_that_may_be_on_its_last_delivery_becomes_a_dead_letter_without_a_call(
    bench: Workbench,
) -> None:
    bench.allow_dead_letters()
    bench.put("killer", lease_count=4)
    function = Function()
    batches(bench, function).run()

    assert function.given == []
    assert "may have been killed" in bench.dead_letters["killer"]["cause"]
    assert bench.states == {}


def test_without_a_dead_letter_dag_its_last_delivery_is_given_to_the_function(bench: Workbench) -> None:
    bench.put("old", lease_count=4)
    function = Function()
    batches(bench, function).run()

    assert function.ids == [["old"]]


def test_a_broken_function_makes_at_most_two_dead_letters_in_a_task(bench: Workbench) -> None:
    bench.allow_dead_letters()
    ids = ["a", "b", "c", "d"]
    bench.put(*ids, lease_count=2)

    with pytest.raises(FailedMessagesError, match="too many messages in a row"):
        batches(bench, Function(set(ids), names=True)).run()
    assert len(bench.dead_letters) == 2
    assert sorted(bench.states.values()) == ["available", "available"]
