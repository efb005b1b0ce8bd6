"""Numbers of messages, and the ids that fit an XCom."""

from __future__ import annotations

import json

import msgspec

from airflow_provider_workflow.dispatch.results import Tally


def test_every_outcome_is_counted_with_its_ids() -> None:
    tally = Tally()
    tally.count("started", "a")
    tally.count("existing", "b")
    tally.refuse("c", "too deep")

    assert tally.result == {
        "started": {"count": 1, "ids": ["a"]},
        "existing": {"count": 1, "ids": ["b"]},
        "refused": {"count": 1, "ids": ["c"]},
    }
    assert tally.handled == 3


def test_only_the_first_100_ids_are_kept_and_all_are_counted() -> None:
    tally = Tally()
    for number in range(250):
        tally.count("started", str(number))

    assert tally.result["started"]["count"] == 250
    assert tally.result["started"]["ids"] == [str(number) for number in range(100)]


def test_a_message_that_comes_again_is_counted_once() -> None:
    tally = Tally()
    tally.count("started", "a")
    tally.count("existing", "a")
    tally.refuse("a", "late")

    assert tally.handled == 1
    assert tally.result["refused"]["count"] == 0


def test_a_message_that_comes_again_after_a_deferral_is_counted_once() -> None:
    before = Tally()
    before.count("started", "a")
    after = Tally.carried(json.loads(json.dumps(before.carry())))
    after.count("existing", "a")

    assert after.handled == 1


def test_causes_of_refusals_cross_a_deferral() -> None:
    before = Tally()
    before.refuse("a", "too deep")
    after = Tally.carried(json.loads(json.dumps(before.carry())))

    assert after.refused_text() == before.refused_text()
    assert after.refused_text() == "1 messages were rejected and not acknowledged: a: too deep"


def test_the_text_names_ten_causes_and_the_number_of_all() -> None:
    tally = Tally()
    for number in range(150):
        tally.refuse(f"m{number}", "cause")

    assert tally.refused_text().startswith("150 messages were rejected")
    assert tally.refused_text().count("cause") == 10
    assert len(tally.causes) == 100


def test_whatever_a_cause_quotes_it_can_cross_and_is_short() -> None:
    tally = Tally()
    tally.refuse("a\0\ud800", "quotes \0 \ud800 and " + "x" * 10_000_000)

    assert len(msgspec.msgpack.encode(tally.carry())) < 1000
    assert "\0" not in tally.refused_text()
    assert tally.refused_text().isprintable()


def test_two_tallies_share_nothing() -> None:
    Tally().count("started", "a")

    assert Tally().handled == 0
