"""The limit of CPU time: a message whose check is slow holds up no other, and is at fault itself."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException
from airflow.sdk.exceptions import AirflowTaskTimeout
from airflow.sdk.execution_time.timeout import TimeoutPosix
from pydantic import BaseModel, field_validator

from airflow_provider_workflow.dispatch import cpu_limit
from airflow_provider_workflow.dispatch.cpu_limit import CheckTooSlowError, limited
from airflow_provider_workflow.dispatch.results import DrainEnd
from airflow_provider_workflow.dispatch.routing import Routes
from airflow_provider_workflow.dispatch.run_errors import TargetError
from airflow_provider_workflow.dispatch.schema import checker
from airflow_provider_workflow.emulator.clock import ManualClock
from airflow_provider_workflow.operators.inbox import WorkflowInboxDispatchOperator
from airflow_provider_workflow.sensors.inbox import WorkflowInboxSensor
from airflow_provider_workflow.triggers.event import WorkflowInboxEventTrigger
from tests.unit.fake_clock import FakeClock
from tests.unit.workbench import INBOX, Receipt, Workbench

LEASE_SECONDS = 300
PATTERN = {"properties": {"text": {"pattern": r"^(\w+\s?)*$"}}}
UNIQUE = {"properties": {"list": {"uniqueItems": True}}}
BACKTRACKS = {"text": "a" * 32 + "!"}
QUADRATIC = {"list": [{"a": number} for number in range(4000)]}
SLOW_MATCH = "length(payload.list[?a >= `0`].{b: a, c: a}) >= `0`"
MANY = {"list": [{"a": number} for number in range(20_000)]}


class Looping(BaseModel):
    """A type with a validator of its own, which never returns for some texts."""

    text: str

    @field_validator("text")
    @classmethod
    def is_known(cls, text: str) -> str:
        while text != "sound":
            try:
                text.upper()
            except Exception:
                return text
        return text


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """A limit that takes a test little CPU time."""
    monkeypatch.setattr(cpu_limit, "MAX_CHECK_SECONDS", 0.2)


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    """After each test the signal and its timer are as before."""
    yield
    assert signal.getsignal(signal.SIGVTALRM) is signal.SIG_DFL
    assert signal.getitimer(signal.ITIMER_VIRTUAL) == (0.0, 0.0)


def operator(**arguments: Any) -> WorkflowInboxDispatchOperator:
    return WorkflowInboxDispatchOperator(task_id="t", inbox=INBOX, trigger_dag_id="handle", **arguments)


def sensor(**arguments: Any) -> WorkflowInboxSensor:
    return WorkflowInboxSensor(task_id="t", inbox=INBOX, trigger_dag_id="handle", **arguments)


def reasons(bench: Workbench) -> dict[str, tuple[str, str]]:
    return {message_id: (conf["reason"], conf["cause"]) for message_id, conf in bench.dead_letters.items()}


def too_slow(name: str) -> str:
    return f"its check took longer than {cpu_limit.MAX_CHECK_SECONDS:g} s of CPU time ({name})"


@pytest.mark.slow
@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("make", [operator, sensor])
@pytest.mark.parametrize(
    ("schema", "payload"),
    [(PATTERN, BACKTRACKS), (UNIQUE, QUADRATIC), (Looping, {"text": "odd"})],
    ids=["pattern", "uniqueItems", "validator"],
)
def test_sound_messages_start_while_one_whose_check_is_slow_becomes_a_dead_letter(
    bench: Workbench, clock: ManualClock, make: Callable[..., Any], schema: Any, payload: Any
) -> None:
    bench.supervisor.dags.add("dead")
    sound = [f"s{number:02}" for number in range(40)]
    bench.put("slow", payload=payload)
    bench.put(*sound, payload={"text": "sound"})
    make(schema=schema, dead_letter_dag_id="dead").execute(bench.context)

    assert bench.supervisor.started == sound
    assert bench.states == {"slow": "leased"}
    for _ in range(2):
        clock.advance(LEASE_SECONDS + 1)
        bench.put("more", payload={"text": "sound"})
        make(schema=schema, dead_letter_dag_id="dead").execute(bench.context)
    assert reasons(bench) == {"slow": ("invalid", too_slow("schema"))}
    assert bench.states == {}


@pytest.mark.usefixtures("short")
def test_without_a_dead_letter_dag_the_task_fails_and_names_the_message(bench: Workbench) -> None:
    bench.put("slow", payload=BACKTRACKS)
    bench.put("sound")
    with pytest.raises(AirflowFailException, match=r"slow: its check took longer .* CPU time \(schema\)"):
        operator(schema=PATTERN).execute(bench.context)
    assert bench.supervisor.started == ["sound"]


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"match": SLOW_MATCH}, "match"),
        ({"targets": {"handle": SLOW_MATCH}}, "trigger_dag_id['handle']"),
        ({"once_per": "payload.list[?a >= `0`].{b: a, c: a}"}, "once_per"),
    ],
)
def test_an_expression_that_is_slow_on_a_message_makes_it_invalid(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch, arguments: dict[str, Any], name: str
) -> None:
    monkeypatch.setattr(cpu_limit, "MAX_CHECK_SECONDS", 0.02)
    bench.allow_dead_letters(after=1)
    bench.put("slow", payload=MANY)
    bench.put("sound", payload={"list": [{"a": 1}]})
    bench.dispatcher(**arguments).drain()

    assert reasons(bench) == {"slow": ("invalid", too_slow(name))}
    assert bench.supervisor.started == ["sound"]


def test_a_message_whose_trace_is_slow_to_find_starts_its_run_without_it(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cpu_limit, "MAX_CHECK_SECONDS", 0.02)
    trace = "00-" + "1" * 32 + "-" + "2" * 16 + "-01"
    expression = "payload.list[?a >= `0`].{b: a, c: a} && payload.trace"
    bench.put("slow", payload={**MANY, "trace": trace})
    bench.put("sound", payload={"list": [{"a": 1}], "trace": trace})
    routes = Routes("handle", trace_context=expression)
    replace(bench.dispatcher(), routes=routes).drain()

    confs = {conf["message"]["id"]: conf for conf in bench.supervisor.runs.values()}
    traces = {name: trace in conf.values() for name, conf in confs.items()}
    assert traces == {"slow": False, "sound": True}


def test_a_sensor_that_returns_messages_leaves_out_one_whose_match_is_slow(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cpu_limit, "MAX_CHECK_SECONDS", 0.02)
    bench.put("slow", payload=MANY)
    bench.put("sound", payload={"list": [{"a": 1}]})
    receiver = Receipt(bench)(SLOW_MATCH)
    lent = receiver.lend(bench.lease())

    assert lent is not None
    assert [message["id"] for message in lent["messages"]] == ["sound"]
    assert receiver.counts.causes == {"slow": too_slow("match")}


def test_a_sensor_that_returns_messages_releases_those_for_which_slow_checks_left_no_time(
    bench: Workbench, fake_clock: FakeClock
) -> None:
    def accepts(message: Any) -> bool:
        if message["id"].startswith("slow"):
            fake_clock.cpu += 200
            fake_clock.advance(200)
        return True

    bench.put("sound", "slow1", "slow2", "later")
    receiver = Receipt(bench)()
    receiver.routes.accepts = lambda message: limited("match", accepts, message)  # type: ignore[method-assign]
    lent = receiver.lend(bench.lease(seconds=LEASE_SECONDS))

    assert lent is not None
    assert [message["id"] for message in lent["messages"]] == ["sound"]
    assert list(receiver.counts.causes) == ["slow1", "slow2"]
    assert bench.states == dict.fromkeys(("sound", "slow1", "slow2"), "leased") | {"later": "available"}


@pytest.mark.since(3, 3, "the event trigger")
async def test_an_event_has_no_message_whose_match_is_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow_provider_workflow.triggers.event_producer import EventMessage

    monkeypatch.setattr(cpu_limit, "MAX_CHECK_SECONDS", 0.02)
    payloads = {"slow": MANY, "sound": {"list": [{"a": 1}]}}
    messages = [EventMessage(name, {"payload": payload}, "") for name, payload in payloads.items()]
    watcher = WorkflowInboxEventTrigger(INBOX, match=SLOW_MATCH)
    matches, causes = await asyncio.to_thread(watcher.matching, messages)

    assert [message.id for message in matches] == ["sound"]
    assert causes == [("slow", too_slow("match"))]


@pytest.mark.parametrize("attempt", [1, 2])
def test_a_check_that_outlasts_its_lease_fails_the_try_and_the_next_one_leases_for_an_hour(
    bench: Workbench, fake_clock: FakeClock, attempt: int
) -> None:
    def check(payload: Any) -> None:
        if payload == BACKTRACKS:
            fake_clock.cpu += 400
            fake_clock.advance(400)  # nothing interrupts it

    bench.allow_dead_letters()
    bench.put("slow", payload=BACKTRACKS, lease_count=2)
    bench.put("sound")
    dispatcher = replace(bench.dispatcher(attempt=attempt), check_payload=check)
    if attempt == 1:
        with pytest.raises(TargetError, match=r"The check of message slow used up its lease: .*\(schema\)"):
            dispatcher.drain()
        assert bench.dead_letters == {}
        assert bench.supervisor.started == []
        assert bench.states["sound"] == "available"
    else:
        assert dispatcher.drain() is DrainEnd.EMPTY
        assert reasons(bench) == {"slow": ("invalid", too_slow("schema"))}
        assert bench.supervisor.started == ["sound"]


def test_execution_timeout_ends_a_task_that_has_checked_a_message_and_one_that_checks_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def endless(_: Any) -> None:
        while True:
            pass

    monkeypatch.setattr(cpu_limit, "MAX_CHECK_SECONDS", 3600.0)
    with TimeoutPosix(0.05):
        limited("schema", checker(PATTERN), {"text": "sound"})
        with pytest.raises(AirflowTaskTimeout):
            endless(None)
    with TimeoutPosix(0.05), pytest.raises(AirflowTaskTimeout):
        limited("schema", endless, None)

    def check(_: Any) -> None:
        with TimeoutPosix(0.05):
            endless(None)

    with pytest.raises(AirflowTaskTimeout):
        limited("schema", check, None)


def test_a_message_is_not_blamed_for_the_time_in_which_its_process_was_stopped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cpu_limit, "MAX_CHECK_SECONDS", 0.05)
    if (child := os.fork()) == 0:
        try:
            limited("schema", lambda _: os.kill(os.getpid(), signal.SIGSTOP), None)
        except BaseException:
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(child, os.WUNTRACED)
    assert os.WIFSTOPPED(status)
    use_cpu(0.1)
    os.kill(child, signal.SIGCONT)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def use_cpu(seconds: float) -> None:
    """Use CPU time."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


@pytest.mark.usefixtures("short")
def test_a_check_that_catches_its_interruption_is_interrupted_again_and_too_slow_in_the_end() -> None:
    interruptions = []

    def check(_: Any) -> str:
        for _ in range(2):
            try:
                while True:
                    pass
            except BaseException as interruption:
                interruptions.append(interruption)
        return "fits"

    with pytest.raises(CheckTooSlowError):
        limited("schema", check, None)
    assert len(interruptions) == 2


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("fails", [False, True])
def test_in_another_thread_a_check_is_judged_once_it_has_ended(fails: bool) -> None:
    def check(_: Any) -> None:
        use_cpu(0.25)
        if fails:
            raise KeyError("a fault that is of no interest any more")

    with ThreadPoolExecutor(1) as threads:
        assert threads.submit(limited, "match", int, "7").result() == 7
        with pytest.raises(CheckTooSlowError) as slow:
            threads.submit(limited, "match", check, None).result()
    assert str(slow.value) == too_slow("match")


@pytest.mark.usefixtures("short")
def test_other_threads_take_no_time_from_a_check() -> None:
    with ThreadPoolExecutor(2) as threads:
        futures = [threads.submit(use_cpu, 0.3) for _ in range(2)]
        assert limited("schema", lambda _: [future.result() for future in futures], None) == [None, None]


@pytest.mark.usefixtures("short")
def test_the_handler_and_the_timer_of_somebody_else_are_put_back() -> None:
    def handler(*_: Any) -> None: ...

    signal.signal(signal.SIGVTALRM, handler)
    signal.setitimer(signal.ITIMER_VIRTUAL, 1000, 7)
    try:
        with pytest.raises(CheckTooSlowError):
            limited("schema", lambda _: use_cpu(0.3), None)
        assert signal.getsignal(signal.SIGVTALRM) is handler
        seconds, interval = signal.getitimer(signal.ITIMER_VIRTUAL)
        assert 990 < seconds < 1000
        assert interval == 7
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, signal.SIG_DFL)


@pytest.mark.slow
def test_the_limit_is_five_seconds_of_cpu_time() -> None:
    began_at = time.thread_time()
    with pytest.raises(CheckTooSlowError, match=r"longer than 5 s of CPU time \(schema\)"):
        limited("schema", checker(PATTERN), BACKTRACKS)
    assert time.thread_time() - began_at >= 5
