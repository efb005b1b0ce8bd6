"""``make demo``, with a fake Airflow: the verdict, the exit code, and what is shown."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest
from rich.console import Console

from airflow_provider_workflow.dispatch.runs import run_id_of
from airflow_provider_workflow.emulator.clock import ManualClock
from airflow_provider_workflow.emulator.rules.records import iso
from airflow_provider_workflow.emulator.server import EmulatorServer
from tests.unit.fake_clock import FakeClock
from tools import demo
from tools.demo import CHAOS, FIRST_MESSAGE
from tools.demo_messages import Messages, Verdict, order
from tools.demo_view import Screen, glimpse

Json = dict[str, Any]


class FakeAPI:
    """
    Airflow's API, and the listener.

    Whenever runs are listed, the listener leases, starts runs and acknowledges. If it is slow, it does the
    last two when runs are listed the next time, unless it was killed in between.

    :param service: where the listener leases and acknowledges.
    """

    def __init__(self, service: EmulatorServer) -> None:
        self.service = service
        self.inbox_id = service.open_inbox(demo.INBOX)
        self.runs: list[Json] = []
        self.forgets_run_of: int | None = None
        self.is_slow = False
        self.held: Json | None = None

    def dag_runs(self, dag_id: str) -> list[Json]:
        if self.held:
            self._work_on(self.held)
        self.held = self.service.store.messages.lease(self.inbox_id, lease_seconds=60, lease_limit=100)
        if not self.is_slow:
            self._work_on(self.held)
            self.held = None
        return self.runs

    def running_tasks(self) -> list[Json]:
        return []

    def wait_until(self, predicate: Callable[[], Any], timeout: float, what: str) -> Any:
        answer = predicate()
        assert answer, what
        return answer

    def _work_on(self, lease: Json) -> None:
        moment = iso(self.service.store.clock.now())
        for message in lease["results"]:
            if message["payload"]["order"] != self.forgets_run_of:
                run = {"dag_run_id": run_id_of(message["id"], self.inbox_id), "conf": {"message": message}}
                self.runs.append({**run, "queued_at": moment, "end_date": moment, "state": "success"})
        if lease["lease_id"]:
            self.service.store.messages.acknowledge(self.inbox_id, lease["lease_id"])


class FakeAirflow:
    """``LocalAirflow`` without processes: it counts up their ids."""

    names = ("scheduler", "triggerer", "dag-processor", "api-server")
    url = "http://localhost:1"

    def __init__(self, api: FakeAPI) -> None:
        self.api = api
        self._ids: Iterator[int] = count(1_000_001)
        self._leaders = {name: next(self._ids) for name in self.names}

    def leader(self, name: str) -> int:
        return self._leaders[name]

    def pids(self, name: str) -> list[int]:
        return [self._leaders[name]]

    def alive(self, name: str) -> bool:
        return True

    def kill(self, name: str, *, tree: bool) -> None:
        """Kill a process with its children; of the listener the lease stays."""
        assert tree
        self.api.held = None

    def restart(self, name: str) -> None:
        self._leaders[name] = next(self._ids)

    def tails(self) -> str:
        return "the ends of the logs"


@pytest.fixture
def api(emulator: EmulatorServer) -> FakeAPI:
    return FakeAPI(emulator)


@pytest.fixture
def airflow(api: FakeAPI) -> FakeAirflow:
    return FakeAirflow(api)


@pytest.fixture(autouse=True)
def same_time(fake_clock: FakeClock, clock: ManualClock) -> None:
    fake_clock.moved_along.append(clock)


def console(**options: object) -> Console:
    return Console(file=io.StringIO(), highlight=False, **options)


def text_of(written: Console) -> str:
    assert isinstance(written.file, io.StringIO)
    return written.file.getvalue()


def shown(airflow: FakeAirflow, *, once: bool = True, chaos: bool = False) -> tuple[int, list[str]]:
    """The exit code of a demo, and what it has written."""
    written = console()
    code = demo.show_messages(airflow.api.service, airflow, Screen(written), once=once, chaos=chaos)
    return code, text_of(written).splitlines()


def test_a_run_for_each_message_is_exit_code_0_and_the_verdict_is_the_last_line(airflow: FakeAirflow) -> None:
    code, lines = shown(airflow)

    assert (code, lines[-1]) == (0, "20 messages, 20 runs, 0 lost, 0 twice")


def test_a_missing_run_is_exit_code_1(airflow: FakeAirflow) -> None:
    airflow.api.forgets_run_of = 7
    code, lines = shown(airflow)

    assert (code, lines[-1]) == (1, "20 messages, 19 runs, 1 lost, 0 twice")
    assert "the ends of the logs" in lines


def test_a_demo_whose_kills_could_not_be_made_is_exit_code_1(airflow: FakeAirflow) -> None:
    # There is no task that can be killed, as "worker" of the plan.
    airflow.api.is_slow = True
    code, lines = shown(airflow, chaos=True)

    assert (code, lines[-1]) == (1, "60 messages, 60 runs, 0 lost, 0 twice, 1 kills")


def test_an_interrupted_demo_that_has_lost_a_message_is_exit_code_1(
    airflow: FakeAirflow, fake_clock: FakeClock
) -> None:
    airflow.api.forgets_run_of = 1

    def interrupt(_: float) -> None:
        if fake_clock.elapsed >= 3:
            fake_clock.meanwhile = lambda _: None
            raise KeyboardInterrupt

    fake_clock.meanwhile = interrupt

    assert shown(airflow, once=False)[0] == 1


def test_an_example_that_does_not_name_its_inbox_once_is_an_error() -> None:
    with pytest.raises(ValueError, match="does not have the argument inbox="):
        demo.with_short_leases("from airflow.sdk import DAG")


def run_of(message_id: str, state: str = "success") -> Json:
    return {"conf": {"inbox_id": "i", "message": {"id": message_id}}, "state": state}


@pytest.mark.parametrize(
    ("statuses", "runs", "text", "holds", "complete"),
    [
        (("acked", "acked"), "ba", "2 messages, 2 runs, 0 lost, 0 twice", True, True),
        (("acked", "acked"), "a", "2 messages, 1 runs, 1 lost, 0 twice", False, False),
        (("acked", "acked"), "aab", "2 messages, 3 runs, 0 lost, 1 twice", False, False),
        (("acked",), "ab", "1 messages, 2 runs, 0 lost, 0 twice", True, False),
        (
            ("leased", "available"),
            "",
            "2 messages, 0 runs, 0 lost, 0 twice;"
            " 2 in flight, not lost: a leased message starts when its lease ends",
            True,
            False,
        ),
    ],
)
def test_the_verdict_counts_the_messages_of_the_service_and_the_runs_of_airflow(
    statuses: tuple[str, ...], runs: str, text: str, holds: bool, complete: bool
) -> None:
    messages = [{"id": each, "status": status} for each, status in zip("ab", statuses, strict=False)]
    verdict = Verdict.of(messages, [run_of(each) for each in runs])

    assert (verdict.text, verdict.holds, verdict.complete) == (text, holds, complete)


def test_a_run_that_has_not_succeeded_is_not_complete() -> None:
    verdict = Verdict.of([{"id": "a", "status": "acked"}], [run_of("a", "running")])

    assert verdict.text == "1 messages, 1 runs, 0 lost, 0 twice; 1 of the runs not successful so far"
    assert verdict.holds
    assert not verdict.complete


def test_a_run_that_a_user_started_without_a_message_does_not_count() -> None:
    confs = (None, {}, {"message": None}, {"message": {}})
    runs = [run_of("a"), *({"conf": conf, "state": "failed"} for conf in confs)]

    assert Verdict.of([{"id": "a", "status": "acked"}], runs).complete


@pytest.fixture
def messages(emulator: EmulatorServer, api: FakeAPI) -> Messages:
    return Messages(emulator, api, "orders", "handle_order")


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        (order(17), '{"order": 17, "item": "plums", "crates": 2}'),
        ({"name": "Zoë\n\x1b[31m"}, '{"name": "Zoë\\n\\u001b[31m"}'),
        ("\x9b\u202e", '"\\x9b\\u202e"'),
    ],
)
def test_a_glimpse_is_one_printable_line(payload: object, text: str) -> None:
    assert glimpse(payload) == text


def test_each_step_of_a_message_is_a_line_once_with_its_payload(
    messages: Messages, clock: ManualClock
) -> None:
    messages.put(order(1))
    clock.advance(2.5)
    messages.look()
    (message_id,) = messages.rows

    written = console()
    with Screen(written).live("http://x") as show:
        show(messages)
        show(messages)

    lines = text_of(written).splitlines()
    assert [line.split("  ", 1)[0] for line in lines] == [message_id] * 5
    assert [line[len(message_id) + 2 :][:13].strip() for line in lines] == [
        "put",
        "leased",
        "run started",
        "run succeeded",
        "acknowledged",
    ]
    assert [line.split("+")[1].split(" s")[0].strip() for line in lines] == ["0.0", *["2.5"] * 4]
    assert all(line.endswith(glimpse(order(1))) for line in lines)


def test_lines_have_no_control_characters_and_are_not_wrapped(messages: Messages) -> None:
    messages.put(order(1))
    written = console(width=20)
    Screen(written).say("[bold]a line of more than twenty characters, with brackets[/bold]")
    with Screen(written).live("http://x") as show:
        show(messages)

    first, second = text_of(written).splitlines()
    assert first == "[bold]a line of more than twenty characters, with brackets[/bold]"
    assert second.endswith(glimpse(order(1)))
    assert "\x1b" not in text_of(written)


def test_everything_fits_into_a_terminal_of_80_by_24(messages: Messages) -> None:
    messages.put(*map(order, range(100, 200)))
    messages.look()
    written = console(width=80, height=24, force_terminal=True, color_system=None)
    screen = Screen(written)
    for text in (CHAOS, FIRST_MESSAGE):
        screen.say(text)
    said = text_of(written).splitlines()
    with screen.live("http://localhost:12345/plugin/workflow-inboxes") as show:
        show(messages)

    frame = "Inboxes in Airflow" + text_of(written).rpartition("Inboxes in Airflow")[2]
    lines = re.sub(r"\x1b\[[0-9?;]*\w", "", frame).rstrip().splitlines()
    assert max(map(len, (*said, *lines))) <= 80
    assert not [line for line in said if line.startswith(" ")]
    assert said[-1] == FIRST_MESSAGE, "one line, which stays whole above the table"
    assert len(lines) <= 22
    assert sum("order" in line for line in lines) >= 12
    assert any("http://localhost:12345/plugin/workflow-inboxes" in line for line in lines)
    assert any("put 100, leased 100, run started 100" in line for line in lines)
    assert any("Ctrl-C stops" in line for line in lines)
