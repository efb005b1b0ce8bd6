"""A message always gets the same run id, and no other message gets it."""

from __future__ import annotations

import hashlib

import pytest

from airflow_provider_workflow.dispatch import runs

UUID = "0b6c2c8e-7f3a-4a52-9d0b-1f1e3c8a9b10"


INBOX = "6f1c0e7a-0d52-4b8e-a7c1-2f8b5f1f0c11"


def digest(message_id: str) -> str:
    """The hash of a message of the inbox: over the length of the inbox id, that id, and the message id."""
    return hashlib.sha256(f"{len(INBOX)}:{INBOX}{message_id}".encode()).hexdigest()


def test_a_run_id_names_the_message_and_ends_with_a_hash_of_inbox_and_message() -> None:
    assert runs.run_id_of(UUID, INBOX) == f"workflow__{UUID}__{digest(UUID)[:16]}"


def test_no_boundary_between_inbox_and_message_can_be_shifted() -> None:
    assert runs.run_id_of("b\0c d", "a") != runs.run_id_of("c d", "a\0b")
    assert runs.run_id_of("c d", "ab") != runs.run_id_of("bc d", "a")


@pytest.mark.parametrize("message_id", ["dead__m-1", "dead__", "dead__m-1__0123456789abcdef"])
def test_no_run_of_a_message_looks_like_a_dead_letter(message_id: str) -> None:
    run_id = runs.run_id_of(message_id, INBOX)

    assert run_id == f"workflow__{digest(message_id)}"
    assert run_id != runs.run_id_of(message_id.removeprefix("dead__"), INBOX, runs.DEAD_LETTER_PREFIX)


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
    longest = "x" * 222

    assert runs.run_id_of(longest, INBOX) == f"workflow__{longest}__{digest(longest)[:16]}"
    assert runs.run_id_of(longest + "x", INBOX) == f"workflow__{digest(longest + 'x')}"
