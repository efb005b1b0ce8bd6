"""The operators that dispatch, acknowledge, and start dead letters."""

from __future__ import annotations

import json
import logging
from collections import UserList
from contextlib import nullcontext
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import (
    AirflowException,
    AirflowFailException,
    AirflowSkipException,
)
from airflow.sdk import DAG

from airflow_provider_workflow import clock
from airflow_provider_workflow.assets import create_asset
from airflow_provider_workflow.client.errors import ServerError
from airflow_provider_workflow.dispatch.blame import Reason
from airflow_provider_workflow.dispatch.dead_letters import conf_of
from airflow_provider_workflow.dispatch.delivery import Delivery
from airflow_provider_workflow.dispatch.holding import TaskKilled
from airflow_provider_workflow.dispatch.run_errors import TargetError
from airflow_provider_workflow.dispatch.runs import run_id_of
from airflow_provider_workflow.emulator.clock import ManualClock
from airflow_provider_workflow.operators.dead_letters import WorkflowDeadLetterReplayOperator
from airflow_provider_workflow.operators.inbox import (
    WorkflowAcknowledgeOperator,
    WorkflowInboxDispatchOperator,
    WorkflowReleaseOperator,
)
from airflow_provider_workflow.sensors.inbox import WorkflowInboxSensor
from tests.unit.fake_clock import FakeClock
from tests.unit.fakes import api_error
from tests.unit.workbench import INBOX, Workbench


def dispatch(bench: Workbench, events: Any = None, **arguments: Any) -> Any:
    all_arguments = {"inbox": INBOX, "trigger_dag_id": "handle", **arguments}
    context: Any = {"ti": bench.ti, "triggering_asset_events": events}
    return WorkflowInboxDispatchOperator(task_id="t", **all_arguments).execute(context)


def manual_lease(bench: Workbench, *ids: str) -> dict[str, Any]:
    """What a sensor with ``acknowledge="manual"`` returned, after its way through an XCom."""
    bench.put(*ids)
    lease = bench.lease()
    messages = [{"id": message_id} for message_id in lease.message_ids]
    return json.loads(
        json.dumps({"inbox_id": bench.inbox_id, "lease_id": lease.lease_id, "messages": messages})
    )


def test_a_refused_message_fails_the_task_at_its_end(bench: Workbench) -> None:
    bench.supervisor.refuse("bad", api_error(422))
    bench.put("b", "bad")

    with pytest.raises(AirflowFailException, match=r"1 message was rejected .* bad: "):
        dispatch(bench)
    assert bench.supervisor.started == ["b"]


def test_a_service_that_fails_while_it_is_asked_for_messages_fails_the_try(bench: Workbench) -> None:
    bench.service.fault("status", operation="lease", status=503, times=None)

    with pytest.raises(ServerError):
        dispatch(bench)


@pytest.mark.parametrize("reason", ["abandoned", None])
def test_an_inbox_that_the_service_has_paused_for_a_minute_is_drained_and_fails_the_task(
    bench: Workbench, fake_clock: FakeClock, reason: str | None
) -> None:
    bench.put("a")
    bench.service.store.inboxes.force(bench.inbox_id, "paused", reason)

    text = rf"'orders' is paused \({reason or 'unknown'}\).* airflow-workflow inbox resume orders"
    with pytest.raises(AirflowFailException, match=text):
        dispatch(bench)
    assert bench.supervisor.started == ["a"]
    assert bench.states == {}
    assert 60 <= fake_clock.elapsed < 180


@pytest.mark.parametrize(("reason", "arguments"), [("user", {}), ("abandoned", {"on_paused": "log"})])
def test_a_pause_by_a_user_or_where_asked_is_only_logged(
    bench: Workbench, reason: str, arguments: Any, caplog: pytest.LogCaptureFixture
) -> None:
    bench.service.store.inboxes.force(bench.inbox_id, "paused", reason)

    assert dispatch(bench, **arguments)["started"]["count"] == 0
    assert f"Inbox 'orders' is paused ({reason}), and new events are dropped" in caplog.text


@pytest.mark.usefixtures("fake_clock")
def test_what_no_retry_can_fix_fails_the_task_without_one(bench: Workbench) -> None:
    with pytest.raises(AirflowFailException, match="Inbox 'misspelt' does not exist"):
        dispatch(bench, inbox="misspelt")
    bench.ti.xcoms.clear()
    bench.service.fault("status", operation="token", status=401, json={"error": "invalid_client"}, times=None)
    bench.service.store.tokens.expire()
    with pytest.raises(AirflowFailException, match="invalid_client"):
        dispatch(bench)


@pytest.mark.parametrize(
    ("operator", "state"), [(WorkflowAcknowledgeOperator, {}), (WorkflowReleaseOperator, {"a": "available"})]
)
def test_a_lease_is_ended(
    bench: Workbench, operator: Any, state: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    lease = manual_lease(bench, "a")

    assert operator(task_id="t", lease=lease).execute({}) == {"done": 1, "lease_ended": 0}
    assert bench.states == state
    assert [record.message for record in caplog.records if record.levelno >= logging.WARNING] == []


@pytest.mark.parametrize(
    ("operator", "verb"),
    [(WorkflowAcknowledgeOperator, "acknowledged"), (WorkflowReleaseOperator, "released")],
)
def test_the_number_of_messages_whose_lease_is_ended_is_logged(
    bench: Workbench, operator: Any, verb: str, caplog: pytest.LogCaptureFixture
) -> None:
    lease = manual_lease(bench, "a", "b")
    with caplog.at_level(logging.INFO):
        operator(task_id="t", lease=lease).execute({})
    assert f"Inbox {INBOX}: {verb} 2 of 2 messages" in caplog.text


def test_only_the_messages_that_are_named_are_ended(bench: Workbench) -> None:
    lease = manual_lease(bench, "a", "b", "c")
    for ids, count in ((UserList(["b"]), 1), ([], 0)):
        result = WorkflowAcknowledgeOperator(task_id="t", lease=lease, message_ids=ids).execute({})
        assert result == {"done": count, "lease_ended": 0}
    assert bench.states == {"a": "leased", "c": "leased"}


def test_a_lease_that_ended_already_is_told_and_no_fault(
    bench: Workbench, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    lease = manual_lease(bench, "a", "b")
    clock.advance(301)

    result = WorkflowReleaseOperator(task_id="t", lease=lease).execute({})
    assert result == {"done": 0, "lease_ended": 2}
    assert "the lease of 2 messages had ended already; the service redelivers" in caplog.text


@pytest.mark.parametrize(
    "lease",
    [
        "{'lease_id': 'x'}",
        {"lease_id": "x", "messages": []},
        {"inbox_id": "i", "lease_id": "x", "messages": ["a"]},
        {"inbox_id": "i", "lease_id": None, "messages": [{"id": "a"}]},
    ],
)
def test_a_lease_that_is_none_is_named(connected_emulator: Any, lease: Any) -> None:
    text = r'^lease must be what a WorkflowInboxSensor with acknowledge="manual"'
    with pytest.raises(ValueError, match=text):
        WorkflowAcknowledgeOperator(task_id="t", lease=lease).execute({})
    assert connected_emulator.requests == []


@pytest.mark.parametrize(
    ("kind", "field", "others"),
    [
        (WorkflowAcknowledgeOperator, "lease", {}),
        (WorkflowAcknowledgeOperator, "message_ids", {"lease": "{{ lease }}"}),
        (WorkflowDeadLetterReplayOperator, "conf", {}),
        (WorkflowInboxDispatchOperator, "inbox", {"trigger_dag_id": "handle"}),
    ],
)
def test_a_task_in_place_of_its_output_is_an_error_when_the_file_is_parsed(
    kind: Any, field: str, others: dict[str, Any]
) -> None:
    with DAG("d", schedule=None):
        wait = WorkflowInboxSensor(task_id="wait", inbox=INBOX, acknowledge="manual")
        with pytest.raises(ValueError, match=rf"^{field} is the task 'wait' itself: give its \.output"):
            kind(task_id="t", **others, **{field: wait})


@pytest.mark.parametrize("ids", ["a", [1], None])
def test_wrong_message_ids_are_named_before_anything_is_sent(bench: Workbench, ids: Any) -> None:
    operator = WorkflowAcknowledgeOperator(task_id="t", lease=manual_lease(bench, "a"), message_ids=ids)
    with pytest.raises(ValueError, match=r"^message_ids"):
        operator.execute({})
    assert bench.service.count("ack") == 0


def test_what_is_rendered_to_none_was_given_and_fields_of_a_subclass_are_its_own(bench: Workbench) -> None:
    class Mine(WorkflowInboxDispatchOperator):
        template_fields = (*WorkflowInboxDispatchOperator.template_fields, "tables")
        tables = ()

    operator = Mine(task_id="t", inbox=INBOX, trigger_dag_id="handle", match="{{ a }}")
    operator.match = None
    with pytest.raises(ValueError, match="match was rendered to None"):
        operator.execute(bench.context)


def test_what_a_template_may_hold_is_templated() -> None:
    for operator in (WorkflowInboxDispatchOperator, WorkflowInboxSensor):
        assert set(operator.template_fields) == {
            "inbox",
            "trigger_dag_id",
            "match",
            "once_per",
            "trace_context",
            "dead_letter_dag_id",
            "workflow_conn_id",
        }
    assert set(WorkflowAcknowledgeOperator.template_fields) == {"lease", "message_ids", "workflow_conn_id"}


def test_a_dispatch_that_is_being_ended_releases_the_lease_that_it_works_on(bench: Workbench) -> None:
    bench.put(*"abc")
    operator = WorkflowInboxDispatchOperator(task_id="t", inbox=INBOX, trigger_dag_id="handle")
    bench.supervisor.on_start = lambda: operator.on_kill() if bench.supervisor.started == ["a", "b"] else None

    with pytest.raises(TaskKilled):
        operator.execute(bench.context)
    assert bench.states == {"b": "available", "c": "available"}


def dead_letter(bench: Workbench, target: str | None = "handle") -> dict[str, Any]:
    message = {"id": "a", "payload": "a secret", "message_attributes": {"lease_count": 3}}
    delivery = Delivery.of(bench.inbox_id, message)
    conn_id, run_id = bench.hook.workflow_conn_id, run_id_of("a", bench.inbox_id)
    conf = conf_of(delivery, conn_id, target, Reason.REJECTED, "a cause", run_id)
    stored: dict[str, Any] = json.loads(json.dumps(conf))
    return stored


def replay(bench: Workbench, own: Any = None, **arguments: Any) -> Any:
    operator = WorkflowDeadLetterReplayOperator(task_id="t", **arguments)
    return operator.execute({"ti": bench.ti, "dag_run": SimpleNamespace(conf=own)})


def test_a_given_conf_and_target_come_first_and_the_log_says_where_the_run_is(
    bench: Workbench, caplog: pytest.LogCaptureFixture
) -> None:
    bench.supervisor.dags.add("other")
    conf = dead_letter(bench, target=None)
    with caplog.at_level(logging.INFO):
        result = replay(bench, {"no": "dead letter"}, conf=conf, trigger_dag_id="other")

    assert result == {"dag_id": "other", "run_id": bench.run_id("a"), "outcome": "started"}
    assert f"the run {bench.run_id('a')} of the DAG other is started" in caplog.text
    assert "a secret" not in caplog.text


def test_what_cannot_be_replayed_fails_without_a_retry(bench: Workbench) -> None:
    for conf, text in (
        (None, "must be a dictionary, not a NoneType"),
        ({}, "no message_json"),
        (dead_letter(bench, target=None), "give trigger_dag_id"),
    ):
        with pytest.raises(AirflowFailException, match=text):
            replay(bench, conf)


def test_a_replay_into_a_missing_dag_fails_the_try(bench: Workbench) -> None:
    with pytest.raises(TargetError):
        replay(bench, dead_letter(bench, target="missing"))


def test_a_rejection_fails_the_try_and_shows_no_payload(bench: Workbench) -> None:
    bench.supervisor.fail(api_error(400, "value_error", "Invalid input for param x: 'a secret' is too long"))

    with pytest.raises(AirflowException, match="stays a dead letter: value_error") as error_info:
        replay(bench, dead_letter(bench))
    assert not isinstance(error_info.value, AirflowFailException)
    assert "a secret" not in str(error_info.value)
    assert error_info.value.__suppress_context__


def test_what_looks_like_a_template_in_a_message_is_not_rendered(bench: Workbench) -> None:
    conf = dead_letter(bench)
    conf["message_json"] = conf["message_json"].replace("a secret", "{{ 1 + 1 }}")
    with DAG("dead", schedule=None, start_date=datetime(2025, 1, 1), render_template_as_native_obj=True):
        operator = WorkflowDeadLetterReplayOperator(task_id="t", conf="{{ dag_run.conf }}")
    context: Any = {"dag_run": SimpleNamespace(conf=conf), "ti": bench.ti}
    operator.render_template_fields(context)
    operator.execute(context)

    [stored_conf] = bench.supervisor.runs.values()
    assert stored_conf["message"]["payload"] == "{{ 1 + 1 }}"


@pytest.mark.parametrize("target", [None, "", {}, ["handle"]])
def test_a_dispatch_without_a_dag_is_named_where_the_dag_is_parsed(target: Any) -> None:
    with pytest.raises(ValueError, match=r"^trigger_dag_id must name at least one DAG"):
        WorkflowInboxDispatchOperator(task_id="t", inbox=INBOX, trigger_dag_id=target)


def test_a_wrong_target_is_named_where_the_dag_is_parsed() -> None:
    with pytest.raises(ValueError, match=r"^trigger_dag_id"):
        WorkflowDeadLetterReplayOperator(task_id="t", trigger_dag_id="")


@pytest.mark.usefixtures("fake_clock")
def test_the_task_fails_though_a_message_of_the_paused_inbox_is_leased(bench: Workbench) -> None:
    bench.put("rejected before")
    bench.lease(seconds=3600)
    bench.service.store.inboxes.force(bench.inbox_id, "paused", "authentication")

    with pytest.raises(AirflowFailException, match="authentication"):
        dispatch(bench)


PROBLEM = {"kind": "paused", "text": "It is paused (abandoned).", "since": "2026-01-01T00:00:00Z"}


def events_of_notices(
    *alarms: bool, inbox_id: str = "i-1", inbox: str = INBOX, problem: Any = PROBLEM, seconds_ago: float = 0
) -> Any:
    """The events of the notices that started a run."""
    stamp = datetime.fromtimestamp(clock.now() - seconds_ago, UTC)
    payloads = [
        {"inbox": inbox, "inbox_id": inbox_id, "alarm": alarm, **({"problem": problem} if alarm else {})}
        for alarm in alarms
    ]
    events = [SimpleNamespace(extra={"payload": payload}, timestamp=stamp) for payload in payloads]
    return {create_asset(inbox=INBOX): events}


@pytest.mark.parametrize("status", ["paused", "initialization_failure"])
@pytest.mark.parametrize("alarms", [(), (False, True)])
@pytest.mark.usefixtures("fake_clock")
def test_the_task_fails_though_the_target_has_no_capacity(bench: Workbench, status: str, alarms: Any) -> None:
    bench.ti.unfinished = lambda dag_id: 50
    bench.service.store.inboxes.force(bench.inbox_id, status, "authentication")

    with pytest.raises(AirflowFailException, match="authentication"):
        dispatch(bench, events_of_notices(*alarms), max_unfinished_runs=50)


def test_notices_of_messages_that_have_to_wait_raise_no_alarm(bench: Workbench) -> None:
    bench.ti.unfinished = lambda dag_id: 50
    bench.put("a")
    bench.service.store.inboxes.force(bench.inbox_id, "paused", "authentication")

    assert dispatch(bench, events_of_notices(False, False), max_unfinished_runs=50)["started"]["count"] == 0
    assert bench.states == {"a": "available"}


@pytest.mark.parametrize(("alarm", "available"), [(True, ["b", "c"]), (False, [])])
def test_a_pause_fails_the_run_of_its_alarm_only_though_not_all_messages_were_leased(
    bench: Workbench, alarm: bool, available: list[str]
) -> None:
    bench.put("a", "b", "c")
    bench.service.store.inboxes.force(bench.inbox_id, "paused", "authentication")

    if alarm:
        with pytest.raises(AirflowFailException, match=r"resume orders --conn-id workflow_default"):
            dispatch(bench, events_of_notices(alarm), max_messages=1)
    else:
        assert dispatch(bench, events_of_notices(alarm))["started"]["count"] == 3
    assert [message for message, state in bench.states.items() if state == "available"] == available


@pytest.mark.parametrize("other", [False, True])
def test_an_alarm_fails_the_task_of_its_inbox_though_the_source_is_sound_now(
    bench: Workbench, other: bool
) -> None:
    """Or an inbox that is paused each other minute would raise none. The messages are worked on first."""
    bench.put("a")
    events = events_of_notices(True, inbox="invoices" if other else bench.inbox_id)
    text = r"in trouble since 2026-01-01T00:00:00Z.* It is paused \(abandoned\)\."
    with nullcontext() if other else pytest.raises(AirflowFailException, match=text):
        dispatch(bench, events)
    assert bench.supervisor.started == ["a"]


def test_an_alarm_says_since_when_the_watcher_sees_the_problem(bench: Workbench) -> None:
    """Events were dropped since then, and not only since the task began."""
    bench.service.store.inboxes.force(bench.inbox_id, "paused", "abandoned")
    with pytest.raises(AirflowFailException, match=r"abandoned.*\(since 2026-01-01T00:00:00Z\)"):
        dispatch(bench, events_of_notices(True))


@pytest.mark.parametrize("problem", [None, "made up", {"text": None, "since": 5}])
def test_a_notice_of_an_earlier_version_fails_the_task_too(bench: Workbench, problem: Any) -> None:
    with pytest.raises(AirflowFailException, match="in trouble since a few minutes ago"):
        dispatch(bench, events_of_notices(True, problem=problem))


@pytest.mark.parametrize("lasts", [False, True])
def test_an_alarm_of_more_than_ten_minutes_ago_fails_the_task_only_if_the_problem_lasts(
    bench: Workbench, lasts: bool
) -> None:
    if lasts:
        bench.service.store.inboxes.force(bench.inbox_id, "paused", "authentication")
    with pytest.raises(AirflowFailException, match="authentication") if lasts else nullcontext():
        dispatch(bench, events_of_notices(True, seconds_ago=601))


@pytest.mark.parametrize("kind", ["paused", "missing"])
def test_of_the_alarms_only_that_of_a_pause_is_logged_where_asked(
    bench: Workbench, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    bench.put("a")
    bench.service.store.inboxes.force(bench.inbox_id, "paused", "abandoned")
    events = events_of_notices(True, problem={**PROBLEM, "kind": kind})
    with nullcontext() if kind == "paused" else pytest.raises(AirflowFailException, match="in trouble"):
        dispatch(bench, events, on_paused="log")

    assert bench.supervisor.started == ["a"]
    assert (kind == "paused") is ("WARNING" in caplog.text and PROBLEM["text"] in caplog.text)


class TestRunsOnATimeSchedule:
    """A DAG whose runs dispatch what there is, each hour or each minute."""

    @pytest.fixture(autouse=True)
    def paused(self, bench: Workbench, fake_clock: FakeClock) -> None:
        bench.service.store.inboxes.force(bench.inbox_id, "paused", "abandoned")

    def next_run(self, bench: Workbench, fake_clock: FakeClock, seconds: float) -> None:
        ended_at = datetime.fromtimestamp(clock.now(), UTC)
        bench.ti.previous = SimpleNamespace(run_id=bench.ti.run_id, state="failed", end_date=ended_at)
        bench.ti.run_id += "."
        fake_clock.advance(seconds)

    def test_between_two_alarms_they_are_skipped_with_the_reason(
        self, bench: Workbench, fake_clock: FakeClock
    ) -> None:
        with pytest.raises(AirflowFailException):
            dispatch(bench)
        for _ in range(5):
            self.next_run(bench, fake_clock, 3600)
            bench.service.store.inboxes.force(bench.inbox_id, "active")
            bench.put(bench.ti.run_id)
            bench.service.store.inboxes.force(bench.inbox_id, "paused", "upstream_failures")
            with pytest.raises(AirflowSkipException, match=r"upstream_failures.*\(since 1970-"):
                dispatch(bench)
            assert bench.states == {}, "it works on the messages first"
        self.next_run(bench, fake_clock, 3600)
        with pytest.raises(AirflowFailException, match="upstream_failures"):
            dispatch(bench)

    def test_after_the_alarm_of_a_notice_they_are_skipped_with_the_reason(
        self, bench: Workbench, fake_clock: FakeClock
    ) -> None:
        bench.service.store.inboxes.force(bench.inbox_id, "active")
        with pytest.raises(AirflowFailException, match="The triggerer finds"):
            dispatch(bench, events_of_notices(True))
        self.next_run(bench, fake_clock, 600)
        bench.service.store.inboxes.force(bench.inbox_id, "paused", "abandoned")

        with pytest.raises(AirflowSkipException, match="abandoned"):
            dispatch(bench)

    @pytest.mark.parametrize("is_dated", [True, False])
    def test_after_hours_without_a_problem_they_fail_again(
        self, bench: Workbench, fake_clock: FakeClock, is_dated: bool
    ) -> None:
        with pytest.raises(AirflowFailException):
            dispatch(bench)
        self.next_run(bench, fake_clock, 3600)
        bench.service.store.inboxes.force(bench.inbox_id, "active")
        for _ in range(2):
            dispatch(bench)
            self.next_run(bench, fake_clock, 3600)
        bench.service.store.inboxes.force(bench.inbox_id, "paused", "abandoned")
        if not is_dated:
            bench.ti.previous = None

        # Airflow names no earlier run of one without a logical date.
        with pytest.raises(AirflowFailException if is_dated else AirflowSkipException):
            dispatch(bench)

    def test_a_problem_that_passes_while_it_is_watched_fails_none(
        self, bench: Workbench, fake_clock: FakeClock
    ) -> None:
        force = bench.service.store.inboxes.force
        fake_clock.at(fake_clock.start + 10, lambda: force(bench.inbox_id, "active"))
        fake_clock.at(fake_clock.start + 100, lambda: bench.put("a"))

        assert dispatch(bench)["started"]["ids"] == ["a"]
        assert fake_clock.elapsed < 240

    def test_a_problem_that_the_run_before_saw_is_not_watched_again(
        self, bench: Workbench, fake_clock: FakeClock
    ) -> None:
        force = bench.service.store.inboxes.force
        fake_clock.at(fake_clock.start + 10, lambda: force(bench.inbox_id, "active"))
        dispatch(bench)
        self.next_run(bench, fake_clock, 60)
        force(bench.inbox_id, "paused", "abandoned")
        began = fake_clock.elapsed

        with pytest.raises(AirflowFailException, match="abandoned"):
            dispatch(bench)
        assert fake_clock.elapsed == began

    def test_a_rejected_message_fails_one_that_would_be_skipped(
        self, bench: Workbench, fake_clock: FakeClock
    ) -> None:
        with pytest.raises(AirflowFailException):
            dispatch(bench)
        self.next_run(bench, fake_clock, 60)
        bench.supervisor.refuse("bad", api_error(422))
        bench.service.store.inboxes.force(bench.inbox_id, "active")
        bench.put("good", "bad")
        bench.service.store.inboxes.force(bench.inbox_id, "paused", "abandoned")

        with pytest.raises(AirflowFailException, match="1 message was rejected"):
            dispatch(bench)


def test_after_notices_of_messages_the_alarm_is_left_to_the_watcher_for_a_while(
    bench: Workbench, fake_clock: FakeClock
) -> None:
    """The watcher may use the inbox though no task can: the workers have a wrong secret, say."""
    for minute in range(20):
        bench.ti.run_id = f"run {minute}"
        fails = minute >= 16
        with pytest.raises(AirflowFailException if fails else AirflowSkipException, match="does not exist"):
            dispatch(bench, events_of_notices(False), inbox="misspelt")
        if fails:
            break
        fake_clock.advance(60)
    assert fake_clock.elapsed == 960
