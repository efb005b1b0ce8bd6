"""Batches in a real Airflow: a worker that is killed loses nothing."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

pytestmark = pytest.mark.together


def ids_in_log(file: Path, verb: str) -> Counter[str]:
    """How often each message was given to the function, or processed by it."""
    lines = file.read_text().splitlines() if file.exists() else []
    return Counter(line.removeprefix(f"{verb} ") for line in lines if line.startswith(f"{verb} "))


def test_a_worker_killed_in_the_function_has_acknowledged_nothing_of_its_batch(stage, inbox, tmp_path):
    file, hold = tmp_path / "given", tmp_path / "given.hold"
    hold.touch()
    ids = inbox.put({"n": 1}, {"n": 2}, {"n": 3}, {"n": 4}, {"n": 5})
    run = stage.start("batches_of_two", inbox, file=str(file))
    stage.until(lambda: ids_in_log(file, "given").total() == 1, "the call of the function")
    run.kill_task()
    assert (inbox.counts["leased"], inbox.counts["acked"]) == (1, 0)
    inbox.expire_leases()
    hold.unlink()
    result = run.succeeds()

    assert result["processed"]["count"] == 5
    assert inbox.all_acknowledged()
    assert ids_in_log(file, "done") == Counter(ids)
    assert sorted(ids_in_log(file, "given").values()) == [1, 1, 1, 1, 2]


def test_a_message_that_ends_its_process_becomes_a_dead_letter_and_takes_no_other_with_it(
    stage, inbox, tmp_path
):
    file = tmp_path / "given"
    ids = [f"good-{number}" for number in range(29)]
    inbox.put(*({"n": 0} for _ in range(30)), ids=[*ids[:10], "killer", *ids[10:]])
    run = stage.start("batches_with_dead_letters", inbox, file=str(file))

    def is_done():
        # A try that finds only the leases of a killed one fails, and waits for their end.
        if inbox.counts["available"] == 0 and run.task["state"] != "running":
            inbox.expire_leases()
        return inbox.all_acknowledged()

    stage.until(is_done, "the dead letter")
    run.succeeds()

    assert set(ids_in_log(file, "done")) == set(ids)
    assert sum(line == "given killer" for line in file.read_text().splitlines()) == 3
    stage.check_one_run_each(inbox, ["killer"], "dead_letters")
