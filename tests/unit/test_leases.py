"""A lease in the hands of a task: its time, its order, and how it crosses from trigger to task."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_workflow.dispatch.lease import HeldLease, delivery_count, encoded, without_lease
from tests.unit.fake_clock import FakeClock
from tests.unit.workbench import handed_off

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


def held(*messages: dict[str, Any]) -> HeldLease:
    answer: Any = {"lease_id": "lease", "leased_until": "2026", "results": list(messages), "sent_at": 1000.0}
    lease = HeldLease.of("inbox", answer, 300)
    assert lease is not None
    return lease


@pytest.mark.parametrize("answer", [{"lease_id": None, "results": []}, {"lease_id": "x", "results": []}, {}])
def test_an_empty_lease_is_none(answer: Any) -> None:
    assert HeldLease.of("inbox", answer, 300) is None


def test_a_lease_may_be_worked_on_until_30_s_before_its_end(fake_clock: FakeClock) -> None:
    fake_clock.set(1200)

    assert held(message("a")).seconds_left() == 70.0


def test_messages_that_used_up_most_of_their_leases_come_first_and_the_others_keep_their_order() -> None:
    lease = held(message("a"), message("b", count=3), message("c"), message("d", count=4))

    assert [each["id"] for each in lease.messages] == ["d", "b", "a", "c"]


@pytest.mark.parametrize("attributes", [None, {"lease_count": None}, {"lease_count": True}])
def test_a_message_whose_leases_are_not_told_has_no_count(attributes: Any) -> None:
    assert delivery_count({**message("a"), "message_attributes": attributes}) is None


def test_a_dag_sees_nothing_of_the_lease() -> None:
    assert set(without_lease(message("a", {"x": 1}))) == {"id", "created_at", "payload", "message_attributes"}


@given(st.lists(ANY_JSON, min_size=1, max_size=4))
def test_any_payload_crosses_as_one_ascii_text(payloads: list[Any]) -> None:
    lease = held(*(message(str(number), payload) for number, payload in enumerate(payloads)))
    text = handed_off(lease)

    assert text.isascii()
    assert "\0" not in text
    assert HeldLease.from_hand_off(text) == lease


def test_a_megabyte_crosses_and_the_rest_is_named() -> None:
    lease = held(*(message(name, "x" * 400_000) for name in "abcd"))
    taken = HeldLease.from_hand_off(handed_off(lease))

    assert [each["id"] for each in taken.messages] == ["a", "b"]
    assert taken.left_out == ["c", "d"]


def test_a_large_message_does_not_keep_small_ones_behind_it_back() -> None:
    lease = held(message("a"), message("big", "x" * 1_000_000), message("b"))
    taken = HeldLease.from_hand_off(handed_off(lease))

    assert [each["id"] for each in taken.messages] == ["a", "b"]
    assert taken.left_out == ["big"]


def test_of_a_lease_of_one_message_that_is_too_large_only_its_id_crosses() -> None:
    taken = HeldLease.from_hand_off(handed_off(held(message("big", "x" * 1_000_000))))

    assert (taken.messages, taken.left_out) == ([], ["big"])


def test_the_most_precious_messages_cross_first() -> None:
    lease = held(message("a", "x" * 600_000), message("b", "x" * 600_000, count=4))

    assert HeldLease.from_hand_off(handed_off(lease)).left_out == ["a"]


def test_a_text_is_written_in_small_steps_and_the_rest_of_one_that_is_too_long_is_not() -> None:
    class Items(list[Any]):
        def __iter__(self) -> Any:
            for item in super().__iter__():
                read.append(item)
                yield item

    read: list[int] = []
    with pytest.raises(ValueError, match="too long"):
        encoded(Items(range(1000)), longest=50)
    assert len(read) < 50
    assert encoded(Items(range(1000))) == json.dumps(list(range(1000)))


def test_a_payload_too_deep_for_json_stays_behind() -> None:
    deep: Any = 1
    for _ in range(100_000):
        deep = [deep]
    taken = HeldLease.from_hand_off(handed_off(held(message("deep", deep), message("b"))))

    assert [each["id"] for each in taken.messages] == ["b"]
    assert taken.left_out == ["deep"]


def test_a_message_without_an_id_is_reported_by_its_position(caplog: pytest.LogCaptureFixture) -> None:
    lease = held(
        {**message("x"), "id": None}, message("a"), {**message("x"), "id": {}}, {**message("x"), "id": ""}
    )

    assert [each["id"] for each in lease.messages] == ["a"]
    assert [re.findall("position ([0-9])", line) for line in caplog.messages] == [["1"], ["3"], ["4"]]


def test_of_more_messages_than_one_request_acknowledges_the_others_are_redelivered() -> None:
    assert len(held(*(message(str(number)) for number in range(120))).messages) == 100


@pytest.mark.parametrize(("found", "shown"), [(12345, "12345"), (True, "true")])
def test_an_id_that_is_another_scalar_is_its_json_text(found: Any, shown: str) -> None:
    assert [each["id"] for each in held({**message("x"), "id": found}).messages] == [shown]
