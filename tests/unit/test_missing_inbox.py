"""An inbox that is deleted and created again under its name fails no task that leases from it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from threading import Event
from typing import Any

import pytest

from airflow_provider_workflow.client.errors import NotFoundError, ServerError, WorkflowError
from airflow_provider_workflow.dispatch.results import Drained
from airflow_provider_workflow.dispatch.runs import run_id_of
from airflow_provider_workflow.dispatch.session import MISSING_PAUSES, while_missing
from airflow_provider_workflow.operators.inbox import WorkflowInboxDispatchOperator
from tests.unit.created_again import LOOKING, created_again, put_in_a_new_inbox
from tests.unit.fake_clock import FakeClock
from tests.unit.workbench import INBOX, TaskTimeout, Workbench

__all__ = ["created_again"]

PATIENCE_SECONDS = 10.0


def dispatch(bench: Workbench, **arguments: Any) -> Any:
    given = {"inbox": INBOX, "trigger_dag_id": "handle", **arguments}
    return WorkflowInboxDispatchOperator(task_id="t", **given).execute({"ti": bench.ti})


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING]


class TestLookingForIt:
    def gone(self) -> Any:
        raise NotFoundError("no such inbox", status=404)

    def test_a_name_is_looked_up_for_half_a_minute_and_said_to_be_once(
        self, fake_clock: FakeClock, caplog: pytest.LogCaptureFixture
    ) -> None:
        with pytest.raises(NotFoundError):
            while_missing(INBOX, self.gone)
        assert fake_clock.slept == [*MISSING_PAUSES]
        assert warnings(caplog) == [LOOKING]

    def test_an_id_never_comes_again(self, fake_clock: FakeClock) -> None:
        with pytest.raises(NotFoundError):
            while_missing("8D7A9E3C-0f3b-4a53-9c66-0d5a1f0a6f11", self.gone)
        assert fake_clock.slept == []

    def test_another_fault_is_raised_at_once(self, fake_clock: FakeClock) -> None:
        faults = [NotFoundError("no such inbox", status=404), ServerError("busy", status=503)]

        def ask() -> None:
            raise faults.pop(0)

        with pytest.raises(ServerError):
            while_missing(INBOX, ask)
        assert fake_clock.slept == [1]

    def test_a_task_that_is_being_ended_waits_no_longer(
        self, fake_clock: FakeClock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def out_of_time(seconds: float) -> None:
            raise TaskTimeout

        monkeypatch.setattr(fake_clock, "sleep", out_of_time)
        with pytest.raises(TaskTimeout):
            while_missing(INBOX, self.gone)


def test_an_inbox_that_is_created_again_in_time_is_drained(
    bench: Workbench, created_again: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    bench.hook.delete_inbox(INBOX)
    created_again(10, "a")

    assert dispatch(bench)["started"]["ids"] == ["a"]
    assert warnings(caplog) == [LOOKING]
    assert bench.states == {}


@pytest.mark.parametrize("by", ["name", "id"])
def test_an_inbox_that_is_gone_for_good_fails_the_task(
    bench: Workbench, fake_clock: FakeClock, by: str
) -> None:
    bench.hook.delete_inbox(INBOX)

    with pytest.raises(NotFoundError):
        dispatch(bench, inbox=INBOX if by == "name" else bench.inbox_id)
    assert fake_clock.slept == ([*MISSING_PAUSES] if by == "name" else [])


def test_a_service_that_is_out_of_reach_meanwhile_is_outlasted_as_ever(
    bench: Workbench, fake_clock: FakeClock
) -> None:
    bench.hook.delete_inbox(INBOX)
    bench.service.fault("status", operation="list_inboxes", status=503, after=1, times=None)
    dispatcher = bench.dispatcher()
    dispatcher.is_transient_error = lambda error: isinstance(error, ServerError)

    assert dispatcher.drain() is Drained.UNREACHABLE
    assert fake_clock.slept == [1]


GONE = "Inbox orders was deleted before 1 of its messages were acknowledged. Their runs exist"


class TestBetweenTwoLeases:
    """The inbox is deleted, and created again with the message ``new``, while one drain works on it."""

    def replace_at(
        self, bench: Workbench, message_id: str, after: Callable[[], object] = lambda: None
    ) -> None:
        def replace() -> None:
            if bench.supervisor.started[-1] == message_id:
                after()
                bench.service.store.inboxes.delete(bench.inbox_id)
                put_in_a_new_inbox(bench.service, "new")

        bench.supervisor.on_start = replace

    def check_runs(self, bench: Workbench, *old: str) -> None:
        """These messages of the inbox that was deleted have their runs, and the one of the new inbox."""
        inbox_ids = {**dict.fromkeys(old, bench.inbox_id), "new": bench.hook.get_inbox(INBOX)["id"]}
        runs = {run_id: conf["inbox_id"] for (_, run_id), conf in bench.supervisor.runs.items()}
        assert inbox_ids["new"] != bench.inbox_id
        assert runs == {run_id_of(each, inbox_id): inbox_id for each, inbox_id in inbox_ids.items()}
        assert bench.states == {}

    def test_the_next_lease_is_one_of_the_new_inbox(
        self, bench: Workbench, fake_clock: FakeClock, caplog: pytest.LogCaptureFixture
    ) -> None:
        bench.put("a", "b")
        self.replace_at(bench, "a")
        dispatcher = bench.dispatcher(lease_limit=1)

        assert dispatcher.drain() is Drained.EMPTY
        self.check_runs(bench, "a")
        assert dispatcher.counts.result["inbox_id"] == bench.hook.get_inbox(INBOX)["id"]
        gone, looking = warnings(caplog)
        assert gone.startswith(GONE)
        assert looking.startswith(LOOKING)
        assert fake_clock.slept == [1]

    def test_a_lease_that_was_asked_for_ahead_is_asked_for_again(
        self, bench: Workbench, fake_clock: FakeClock
    ) -> None:
        bench.put("a", "b", "c", "d")
        self.replace_at(bench, "a")

        assert bench.ready_dispatcher().drain() is Drained.EMPTY
        self.check_runs(bench, "a", "b")
        assert bench.lease_sizes[:3] == [2, 2, 2]

    def test_a_lease_that_was_made_ahead_is_worked_on(
        self, bench: Workbench, fake_clock: FakeClock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        made_ahead, lease = Event(), bench.hook.lease_messages

        def tell(*given: Any, **options: Any) -> Any:
            answer = lease(*given, **options)
            if bench.service.count("lease") == 2:
                made_ahead.set()
            return answer

        monkeypatch.setattr(bench.hook, "lease_messages", tell)
        bench.put("a", "b", "c", "d")
        self.replace_at(bench, "b", lambda: made_ahead.wait(PATIENCE_SECONDS))

        assert bench.ready_dispatcher().drain() is Drained.EMPTY
        self.check_runs(bench, "a", "b", "c", "d")

    def test_where_it_is_not_created_again_the_task_fails_with_what_it_did(
        self, bench: Workbench, fake_clock: FakeClock
    ) -> None:
        bench.put("a")
        bench.supervisor.on_start = lambda: bench.service.store.inboxes.delete(bench.inbox_id)
        dispatcher = bench.dispatcher()

        with pytest.raises(NotFoundError, match="no inbox with the name or id 'orders'"):
            dispatcher.drain()
        assert fake_clock.slept == [*MISSING_PAUSES]
        assert dispatcher.counts.result["inbox_id"] == bench.inbox_id
        assert dispatcher.counts.result["started"]["ids"] == ["a"]


def test_an_acknowledgement_that_an_inbox_does_not_know_is_a_fault_while_the_inbox_is_there(
    bench: Workbench, fake_clock: FakeClock
) -> None:
    bench.put("a")
    bench.service.fault("status", operation="ack", status=404, times=None)

    with pytest.raises(WorkflowError, match="acknowledge_messages"):
        bench.dispatcher().drain()
    assert bench.states == {"a": "leased"}
