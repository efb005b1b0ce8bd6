"""A message always gets the same run id, and no other message gets it."""

from __future__ import annotations

import pytest

from airflow_provider_workflow import runs

UUID = "0b6c2c8e-7f3a-4a52-9d0b-1f1e3c8a9b10"


def test_a_run_id_is_the_message_id_behind_a_prefix() -> None:
    assert runs.run_id_of(UUID) == f"workflow__{UUID}"


@pytest.mark.parametrize("unsafe", ["a?b", "a#b", "a%41b", "a/b", "a b", "a\n", "a..b", "", "é", "\ud800"])
def test_an_id_that_an_address_would_change_is_hashed(unsafe: str) -> None:
    run_id = runs.run_id_of(unsafe)

    assert len(run_id) == len("workflow__") + 64
    assert runs.run_id_of(unsafe) == run_id
    assert unsafe == "" or unsafe not in run_id


def test_two_unsafe_ids_get_two_run_ids() -> None:
    assert len({runs.run_id_of(text) for text in ("a?b", "a?c", "a#b", "a\n", "a")}) == 5


def test_an_id_that_looks_like_a_hash_is_hashed_too() -> None:
    digest = runs.run_id_of("a?b").removeprefix("workflow__")

    assert runs.run_id_of(digest) != f"workflow__{digest}"


def test_the_longest_id_that_fits_is_kept_and_a_longer_one_is_hashed() -> None:
    assert runs.run_id_of("x" * 240) == "workflow__" + "x" * 240
    assert len(runs.run_id_of("x" * 241)) < 250
