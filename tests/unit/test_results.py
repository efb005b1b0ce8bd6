"""Numbers of messages, and the ids that fit an XCom."""

from __future__ import annotations

import json

import msgspec

from airflow_provider_workflow.dispatch.results import Counts


def test_every_outcome_is_counted_with_its_ids() -> None:
    counts = Counts()
    counts.count("started", "a")
    counts.count("existing", "b")
    counts.reject("c", "too deep")
    counts.count("dead_lettered", "d")

    assert counts.result == {
        "started": {"count": 1, "ids": ["a"]},
        "existing": {"count": 1, "ids": ["b"]},
        "rejected": {"count": 1, "ids": ["c"]},
        "dead_lettered": {"count": 1, "ids": ["d"]},
    }
    assert counts.handled == 4


def test_only_the_first_100_ids_are_kept_and_all_are_counted() -> None:
    counts = Counts()
    for number in range(250):
        counts.count("started", str(number))

    assert counts.result["started"]["count"] == 250
    assert counts.result["started"]["ids"] == [str(number) for number in range(100)]


def test_a_rejected_message_counts_by_its_last_outcome() -> None:
    counts = Counts()
    counts.reject("a", "too deep")
    counts.reject("a", "too deep")
    assert counts.result["rejected"] == {"count": 1, "ids": ["a"]}

    after = Counts.carried(json.loads(json.dumps(counts.carry())))
    after.count("dead_lettered", "a")

    assert after.handled == after.result["dead_lettered"]["count"] == 1
    assert not after.causes


def test_causes_of_refusals_cross_a_deferral() -> None:
    before = Counts()
    before.reject("a", "too deep")
    after = Counts.carried(json.loads(json.dumps(before.carry())))

    assert after.rejected_text() == before.rejected_text()
    assert after.rejected_text() == "1 messages were rejected and not acknowledged: a: too deep"


def test_the_text_names_ten_causes_and_the_number_of_all() -> None:
    counts = Counts()
    for number in range(150):
        counts.reject(f"m{number}", "cause")

    assert counts.rejected_text().startswith("150 messages were rejected")
    assert counts.rejected_text().count("cause") == 10
    assert len(counts.causes) == 100


def test_whatever_a_cause_quotes_it_can_cross_and_is_short() -> None:
    counts = Counts()
    counts.reject("a\0\ud800", "quotes \0 \ud800 and " + "x" * 10_000_000)

    assert len(msgspec.msgpack.encode(counts.carry())) < 1000
    assert "\0" not in counts.rejected_text()
    assert counts.rejected_text().isprintable()


def test_two_tallies_share_nothing() -> None:
    Counts().count("started", "a")

    assert Counts().handled == 0
