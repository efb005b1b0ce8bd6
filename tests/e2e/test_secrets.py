"""What a wrong secret looks like to its user. That no test left a secret anywhere: see ``leaks.py``."""

from __future__ import annotations


def test_a_wrong_client_secret_is_named_in_the_task_log(stage, inbox, marks):
    inbox.put({"n": 1})
    log = stage.start("listener_with_a_wrong_secret", inbox).fails()
    (sentence,) = {line for line in log.splitlines() if line.startswith("AuthenticationError")}
    assert "401 (invalid_client): Unknown client or wrong secret." in sentence
    assert marks.found(log) == []
    assert inbox.lease_counts == [0]
