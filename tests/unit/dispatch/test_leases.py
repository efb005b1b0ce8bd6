"""Leases, and the probing of targets after an error."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import strategies as st

from airflow_provider_workflow import clock, inbox_names
from airflow_provider_workflow.client.errors import TransportError, WorkflowError
from airflow_provider_workflow.dispatch.delivery import delivery_count
from airflow_provider_workflow.dispatch.lease import HeldLease, lease_once
from airflow_provider_workflow.dispatch.rejections import probes_of
from airflow_provider_workflow.dispatch.run_errors import TargetError
from airflow_provider_workflow.emulator.clock import ManualClock
from tests.unit.fake_clock import FakeClock
from tests.unit.fakes import api_error
from tests.unit.workbench import Workbench

ANY_TEXT = st.text(st.characters(codec=None, exclude_categories=()))
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False) | st.integers() | ANY_TEXT,
    lambda inner: st.lists(inner) | st.dictionaries(ANY_TEXT | st.just("__classname__"), inner),
    max_leaves=20,
)


def message(message_id: str, payload: Any = None, count: int = 1) -> dict[str, Any]:
    return {
        "id": message_id,
        "created_at": "2026-01-01T00:00:00.000Z",
        "status": "leased",
        "message_attributes": {"lease_count": count, "error_message": None, "possible_duplicate_data": False},
        "payload": payload,
    }


def lease_of(*messages: dict[str, Any]) -> HeldLease:
    answer: Any = {"lease_id": "lease", "leased_until": "2026", "results": list(messages), "sent_at": 1000.0}
    lease = HeldLease.of("inbox", answer, 300, "c")
    assert lease is not None
    return lease


@pytest.mark.parametrize("answer", [{"lease_id": None, "results": []}, {"lease_id": "x", "results": []}, {}])
def test_an_empty_lease_is_none(answer: Any) -> None:
    assert HeldLease.of("inbox", answer, 300, "c") is None


def test_a_lease_may_be_worked_on_until_30_s_before_its_end() -> None:
    with clock.use(FakeClock(1200)):
        assert lease_of(message("a")).seconds_left() == 70.0


def test_a_lease_that_is_answered_too_late_to_work_on_is_released(
    bench: Workbench, fake_clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.put("a")
    answer = bench.hook.lease_messages(bench.inbox_id, 1, 60)
    monkeypatch.setattr(bench.hook, "lease_messages", lambda *_: fake_clock.advance(31) or answer)

    assert lease_once(bench.hook, bench.inbox_id, 1, 60, margin=0) is not None
    with pytest.raises(TransportError, match="62 s"):
        bench.lease(seconds=60)
    assert bench.states == {"a": "available"}


def test_messages_that_used_up_most_of_their_leases_come_first_and_the_others_keep_their_order() -> None:
    lease = lease_of(message("a"), message("b", count=3), message("c"), message("d", count=4))

    assert lease.message_ids == ["d", "b", "a", "c"]


@pytest.mark.parametrize(
    ("attributes", "count"),
    [
        *(({"lease_count": text}, None) for text in (None, True, "many", "\u00b2", "9" * 10, 1.5)),
        *((attributes, None) for attributes in (None, {}, ["x"])),
        *(({"lease_count": number}, 4) for number in (4, 4.0, "4")),
    ],
)
def test_a_delivery_count_is_a_whole_number_or_its_text(attributes: Any, count: int | None) -> None:
    assert delivery_count({**message("a"), "message_attributes": attributes}) == count


def test_what_a_triggerer_cannot_pass_on_is_no_hand_off() -> None:
    lease = lease_of(message("b", {"\0": "\ud800"}))
    text = lease.hand_off()
    assert text.isascii()
    assert HeldLease.from_hand_off(text) == lease

    with pytest.raises(ValueError, match=r"^it is too long$"):
        lease_of(message("a", "x" * 1_000_000), message("b")).hand_off()


def test_a_message_without_an_id_is_reported_by_its_position(caplog: pytest.LogCaptureFixture) -> None:
    inbox_names.remember_name("inbox", "c", "orders")
    lease = lease_of(
        {**message("x"), "id": None}, message("a"), {**message("x"), "id": {}}, {**message("x"), "id": ""}
    )

    assert lease.message_ids == ["a"]
    assert caplog.messages[0].startswith("Inbox orders: the message at position 1 of lease lease has no id;")
    assert [re.findall("position ([0-9])", line) for line in caplog.messages] == [["1"], ["3"], ["4"]]
    assert {record.levelname for record in caplog.records} == {"ERROR"}


def test_of_more_messages_than_one_request_acknowledges_the_others_are_redelivered() -> None:
    assert len(lease_of(*(message(str(number)) for number in range(120))).message_ids) == 100


@pytest.mark.parametrize(("message_id", "text"), [(12345, "12345"), (True, "true")])
def test_an_id_that_is_another_scalar_is_its_json_text(message_id: Any, text: str) -> None:
    assert lease_of({**message("x"), "id": message_id}).message_ids == [text]


REJECTED = api_error(
    400, "value_error", "Invalid input for param customer: No value passed and Param is required"
)


class Listener:
    """A task of a listener, with its tries."""

    def __init__(self, bench: Workbench) -> None:
        self.bench = bench
        self.attempt = 0

    def next_try(self, targets: Any = "handle", **limits: Any) -> Any:
        """One try: what it dispatched, or how it failed."""
        self.attempt += 1
        dispatcher = self.bench.dispatcher(targets, attempt=self.attempt, **limits)
        try:
            dispatcher.drain()
        except (TargetError, WorkflowError) as error:
            return error
        return dispatcher.counts.result


def leases(bench: Workbench) -> list[tuple[int, int]]:
    return [(request["lease_limit"], request["lease_seconds"]) for request in bench.bodies_of("lease")]


def test_the_number_of_probes_doubles_up_to_128() -> None:
    assert [probes_of(attempt) for attempt in (1, 2, 3, 8, 9, 1000)] == [1, 2, 4, 128, 128, 128]


@pytest.mark.parametrize(
    ("missing", "argument"), [("second", "trigger_dag_id"), ("dead", "dead_letter_dag_id")]
)
def test_nothing_is_leased_for_a_dag_that_is_missing(bench: Workbench, missing: str, argument: str) -> None:
    bench.allow_dead_letters()
    bench.supervisor.dags |= {"second"}
    bench.supervisor.dags.discard(missing)
    bench.put("a")

    with pytest.raises(TargetError, match=rf"'{missing}' was not found\. Deploy it, or correct {argument}"):
        bench.dispatcher({"handle": "payload.x", "second": "payload"}).drain()
    assert bench.service.count("lease") == 0


def test_each_try_probes_twice_as_many_messages_of_a_target_that_rejects_them(bench: Workbench) -> None:
    bench.put(*(f"m{number}" for number in range(20)))
    bench.supervisor.refuse("", api_error(500))
    listener = Listener(bench)

    assert all(isinstance(listener.next_try(), TargetError) for _ in range(3))
    assert leases(bench) == [(1, 300), *[(1, 3600)] * 6]
    assert list(bench.states.values()).count("leased") == 7
    assert bench.service.count("release") == 0


def test_the_error_of_a_target_says_what_it_rejected_and_what_the_next_try_does(bench: Workbench) -> None:
    bench.put("a", "b", "c")
    bench.supervisor.refuse("", REJECTED)
    listener = Listener(bench)
    first, second = listener.next_try(), listener.next_try()

    assert str(first) == (
        "A message was rejected for the DAG 'handle', of which this task has started no run:"
        " value_error (status 400): param customer. Correct the schema, or the DAG (its params, its"
        " timetable, or the pattern of run ids). The next try probes up to 2 new messages, one at a time; no"
        " message is lost."
    )
    assert str(second).startswith("2 messages were rejected for the DAG")


@pytest.mark.parametrize("dead_letters", [True, False])
def test_messages_behind_up_to_100_rejected_ones_start_within_seven_tries(
    bench: Workbench, dead_letters: bool
) -> None:
    if dead_letters:
        bench.allow_dead_letters()
    bench.put(*(f"bad{number}" for number in range(100)), "good")
    bench.supervisor.refuse("bad", REJECTED)
    listener = Listener(bench)
    while "good" not in bench.supervisor.started:
        listener.next_try()
        assert listener.attempt <= 7


def test_from_the_second_try_on_32_redelivered_ones_are_passed_at_once(bench: Workbench) -> None:
    bench.put(*(f"bad{number}" for number in range(60)), lease_count=1)
    bench.put("good")
    bench.supervisor.refuse("bad", REJECTED)
    listener = Listener(bench)

    assert [isinstance(listener.next_try(), TargetError) for _ in range(3)] == [True, True, False]
    assert leases(bench)[1:33] == [(1, 3600)] * 32
    assert bench.supervisor.started == ["good"]


@pytest.mark.parametrize("message_count", [1, 20])
def test_params_that_reject_every_conf_for_an_hour_quarantine_nothing(
    bench: Workbench, clock: ManualClock, message_count: int
) -> None:
    ids = [f"m{number}" for number in range(message_count)]
    bench.put(*ids)
    bench.supervisor.refuse("", REJECTED)
    listener = Listener(bench)
    for _ in range(12):
        listener.next_try()
        clock.advance(300)
    assert "quarantined" not in bench.states.values()

    bench.supervisor.faults.clear()
    for _ in range(3):
        listener.next_try()
        clock.advance(3600)
    assert sorted(bench.supervisor.started) == sorted(ids)
    assert bench.states == {}


def test_a_target_with_a_run_that_was_found_is_probed_again_once_it_rejects_a_message(
    bench: Workbench,
) -> None:
    bench.put("a", *(f"bad{number}" for number in range(9)))
    bench.start_before("a")
    bench.supervisor.refuse("bad", REJECTED)
    with pytest.raises(TargetError, match="8 messages were rejected"):
        bench.dispatcher(attempt=4, lease_limit=16).drain()

    # The larger lease is half of the one that the try before may have died of.
    assert leases(bench) == [(1, 3600), (2, 300), *[(1, 3600)] * 6]
    assert bench.service.count("release") == 0


def test_a_hand_off_of_which_the_target_rejects_all_is_left_to_its_lease(bench: Workbench) -> None:
    bench.put(*"abc")
    bench.supervisor.refuse("", REJECTED)

    with pytest.raises(TargetError, match="3 messages were rejected"):
        bench.dispatcher().drain(bench.lease())
    assert bench.states == {"a": "leased", "b": "leased", "c": "leased"}
    assert bench.service.count("lease") == 1


def test_one_broken_target_of_two_costs_each_try_few_of_its_messages(bench: Workbench) -> None:
    bench.supervisor.dags = {"good", "bad"}
    bench.put("b1", "b2", payload={"to": "bad"})
    bench.put(*"xyz", payload={"to": "good"})
    routes = {"bad": "payload.to == 'bad'", "good": "payload"}
    bench.supervisor.faults.append(lambda request: REJECTED if request.dag_id == "bad" else None)
    listener = Listener(bench)
    results = [listener.next_try(routes) for _ in range(3)]

    assert [isinstance(result, TargetError) for result in results] == [True, True, False]
    assert bench.supervisor.started == [*"xyz"]
    assert bench.states == {"b1": "leased", "b2": "leased"}


def test_after_a_failed_try_each_of_two_targets_is_probed_before_larger_leases(bench: Workbench) -> None:
    bench.supervisor.dags = {"good", "bad"}
    bench.put("g1", "g2", payload={"to": "good"})
    bench.put("b1", payload={"to": "bad"})
    bench.put("g3", payload={"to": "good"})
    bench.dispatcher({"bad": "payload.to == 'bad'", "good": "payload"}, attempt=2).drain()

    assert leases(bench) == [*[(1, 3600)] * 3, (2, 300), (2, 300)]


def test_a_drain_ends_after_the_lease_in_which_one_of_two_targets_rejects(bench: Workbench) -> None:
    bench.supervisor.dags = {"good", "bad"}
    for name, to in (("g1", "good"), ("b1", "bad"), ("g2", "good"), ("b2", "bad"), ("g3", "good")):
        bench.put(name, payload={"to": to})
    bench.supervisor.faults.append(lambda request: REJECTED if request.dag_id == "bad" else None)
    dispatcher = bench.dispatcher({"bad": "payload.to == 'bad'", "good": "payload"}, lease_limit=2)

    with pytest.raises(TargetError, match="for the DAG 'bad'"):
        dispatcher.drain()
    assert bench.supervisor.started == ["g1", "g2"]
    assert bench.states == {"b1": "leased", "b2": "available", "g3": "available"}
