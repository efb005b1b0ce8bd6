"""What a wrong secret looks like to its user, and that no test of the session left a secret anywhere."""

from __future__ import annotations

from itertools import chain

import pytest

from tests.e2e.places import decrypted, files, listed, rows

CONNECTIONS = "decrypted connection.password"
"""Where a connection of the database has its secret; those of the environment have theirs nowhere."""


def test_a_wrong_client_secret_is_named_in_the_task_log(stage, inbox, marks):
    inbox.put({"n": 1})
    log = stage.start("listener_with_a_wrong_secret", inbox).fails()
    (sentence,) = {line for line in log.splitlines() if line.startswith("AuthenticationError")}
    assert "401 (invalid_client): Unknown client or wrong secret." in sentence
    assert marks.found(log) == []
    assert inbox.lease_counts == [0]


@pytest.mark.since(3, 3, "start_from_trigger")
def test_a_wrong_client_secret_is_named_in_the_log_of_the_trigger_too(stage, inbox, marks):
    inbox.put({"n": 1})
    log = stage.start("listener_from_trigger_with_a_wrong_secret", inbox).fails()
    assert "401 (invalid_client): Unknown client or wrong secret." in log
    assert marks.found(log) == []
    assert inbox.lease_counts == [0]


def leaks(marks, places) -> set[tuple[str, str]]:
    return {(place, what) for place, content in places for what in marks.found(content)}


@pytest.mark.last
def test_no_file_of_airflow_holds_a_secret(stage, marks):
    written = list(files(stage.airflow.home))
    assert any(b"wrong secret." in text for place, text in written if "/dag_id=listener_with_a_wr" in place)
    assert leaks(marks, written) == set()


@pytest.mark.last
def test_no_row_of_the_database_holds_a_secret(stage, marks):
    """Of what Airflow encrypts, such as the arguments of triggers, only connections hold any."""
    kept = list(chain(rows(stage.airflow.home), decrypted(stage.airflow.home)))
    arguments = [text for place, text in kept if "trigger.kwargs" in place]
    assert any(b"workflow_default" in text for text in arguments), "the example listeners wait"
    assert leaks(marks, kept) <= {(CONNECTIONS, "client secret")}


@pytest.mark.last
def test_no_answer_of_the_api_holds_a_secret(stage, marks):
    shown = list(listed(stage.airflow.api))
    assert any(b"workflow_default" in text for place, text in shown if place.endswith("/taskInstances"))
    assert leaks(marks, shown) == set()
