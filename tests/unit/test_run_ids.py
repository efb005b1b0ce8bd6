"""A message always gets the same run id, and no other message gets it."""

from __future__ import annotations

import hashlib

import pytest

from airflow_provider_workflow.dispatch import runs

UUID = "0b6c2c8e-7f3a-4a52-9d0b-1f1e3c8a9b10"


INBOX = "6f1c0e7a-0d52-4b8e-a7c1-2f8b5f1f0c11"
MARK = hashlib.sha256(INBOX.encode()).hexdigest()[:8]


def test_a_run_id_names_the_message_and_marks_the_inbox() -> None:
    assert runs.run_id_of(UUID, INBOX) == f"workflow__{UUID}__{MARK}"


@pytest.mark.parametrize("message_id", [UUID, "a/b"])
def test_two_inboxes_that_share_a_message_id_share_no_run(message_id: str) -> None:
    assert runs.run_id_of(message_id, INBOX) != runs.run_id_of(message_id, "another")


@pytest.mark.parametrize("unsafe", ["a?b", "a%41b", "a/b", "a\n", "a..b", "", "\ud800"])
def test_an_id_that_an_address_would_change_is_hashed(unsafe: str) -> None:
    run_id = runs.run_id_of(unsafe, INBOX)

    assert len(run_id) == len("workflow__") + 64
    assert runs.run_id_of(unsafe, INBOX) == run_id
    assert unsafe == "" or unsafe not in run_id


def test_two_unsafe_ids_get_two_run_ids() -> None:
    assert len({runs.run_id_of(text, INBOX) for text in ("a?b", "a?c", "a#b", "a\n", "a")}) == 5


def test_the_longest_id_that_fits_is_kept_and_a_longer_one_is_hashed() -> None:
    assert runs.run_id_of("x" * 230, INBOX) == "workflow__" + "x" * 230 + "__" + MARK
    assert len(runs.run_id_of("x" * 231, INBOX)) == len("workflow__") + 64


def test_the_run_id_of_version_0_1_is_known() -> None:
    assert runs.former_run_id_of(UUID) == f"workflow__{UUID}"
    assert len(runs.former_run_id_of("a?b")) == len("workflow__") + 64
    assert runs.former_run_id_of("f" * 64) != "workflow__" + "f" * 64


def test_the_run_id_of_version_0_1_is_never_the_run_id_of_another_message() -> None:
    other = runs.run_id_of("a", INBOX)

    assert runs.former_run_id_of(other.removeprefix(runs.RUN_ID_PREFIX)) is None
