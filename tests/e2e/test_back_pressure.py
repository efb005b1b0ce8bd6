"""``max_unfinished_runs``: how many runs of the target may be queued and running."""

from __future__ import annotations

import threading

import pytest

UNFINISHED = ("queued", "running")


class Sampler(threading.Thread):
    """Looks at the unfinished runs of a DAG again and again, and remembers the most it saw."""

    def __init__(self, stage, inbox, dag_id: str) -> None:
        super().__init__(daemon=True)
        self.most = 0
        self._done = threading.Event()
        self._look = lambda: sum(run["state"] in UNFINISHED for run in stage.runs_of(inbox, dag_id))

    def run(self) -> None:
        while not self._done.wait(0.05):
            self.most = max(self.most, self._look())

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self.join()

    def __enter__(self) -> Sampler:
        self.start()
        return self


@pytest.fixture
def gate(tmp_path):
    """The file without which gated runs do not end; it is there in the end, whatever happened."""
    gate = tmp_path / "gate"
    yield gate
    gate.touch()


def wait_through_deferrals(stage, run, number: int) -> None:
    """Wait until the task was deferred so often: each deferral has a trigger of its own."""
    triggers = set()

    def seen() -> bool:
        if trigger := run.task["trigger"]:
            triggers.add(trigger["created_date"])
        return len(triggers) >= number

    stage.until(seen, f"{number} deferrals")


def test_no_more_runs_are_started_than_may_be_unfinished_and_no_lease_is_wasted(stage, inbox, gate):
    ids = inbox.put(*[{"n": n, "gate": str(gate)} for n in range(8)])
    with Sampler(stage, inbox, "gated") as sampler:
        run = stage.start("listener_with_room_for_three", inbox, target="gated")
        wait_through_deferrals(stage, run, 2)
        assert inbox.counts == {"available": 5, "leased": 0, "acked": 3, "quarantined": 0}
        gate.touch()
        assert run.succeeds()["started"] == {"count": 8, "ids": ids}
    assert sampler.most == 3
    assert inbox.all_acknowledged()
    assert inbox.lease_counts == [1]
    stage.wait_until_succeeded(inbox, ids, "gated")
