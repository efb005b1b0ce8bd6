"""The benchmarks that need no Airflow, in their shortest form, and the DAG files of the others."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from benchmarks import client, parse, watchers
from benchmarks.meter import MACHINE, Meter, Window, cpu_of, megabytes, sockets
from benchmarks.peers.trial import Counts
from benchmarks.peers.ways import DAGS, Way, redis_connection
from benchmarks.scale.finished import WAYS, Finished, rows
from benchmarks.scale.latency import FLOOR, NOTICE, OWN, STEPS
from benchmarks.scale.latency import rows as rows_of_steps
from benchmarks.scale.neighbor import rows_of as rows_of_neighbor
from benchmarks.sqs import POLL, POLLS, counting
from benchmarks.timed import PipeTrigger, tell
from benchmarks.waiting import NOTHING, Case
from benchmarks.waiting import rows as rows_of_waiting


def test_the_client_is_measured_beside_bare_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "QUICK_ROUNDS", 1)
    monkeypatch.setattr(client, "CALLS", 5)

    rows = client.run(quick=True)

    assert {row.beside for row in rows} == {"bare requests", "bare aiohttp"}
    assert all(row.ratio is not None and row.ratio.median > 0 for row in rows)
    assert len({(row.what, row.beside) for row in rows}) == len(rows) == 8


def test_importing_is_measured_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parse, "QUICK_ROUNDS", 1)
    monkeypatch.setattr(parse, "DAG_FILE", "import dataclasses")
    monkeypatch.setattr(parse, "WORKFLOW", parse.names_of(parse.OURS, "clock", "types"))
    monkeypatch.setattr(parse, "RECIPES", {"time": parse.names_of(parse.OURS, "clock")})
    monkeypatch.setattr(parse, "BESIDE", {"email": parse.names_of("email", "mime", "parser")})

    rows = {row.what: row for row in parse.run(quick=True)}

    assert rows["modules loaded by all of ours"].ours.median > rows["modules loaded by: time"].ours.median > 0
    assert rows["time to import all of ours"].beside == "email"
    assert rows["time to import: time"].ours.median > 0


@pytest.mark.parametrize("path", sorted(DAGS.glob("*.py")), ids=lambda path: path.stem)
def test_each_file_of_a_peer_makes_the_dag_that_it_is_named_after(path: Path) -> None:
    source = path.read_text()
    compile(source, path.stem, "exec")
    assert f"\ndef {path.stem}(" in source
    assert source.startswith('"""')
    way = Way(path.stem, "", "airflow-provider-workflow", print, watchers.SLEEPING)
    assert 0 < way.lines < len(source.splitlines())


@pytest.mark.parametrize(
    "trigger", [watchers.LISTENING, watchers.POLLING, watchers.SLEEPING, watchers.POLLED_QUEUE]
)
@pytest.mark.parametrize("template", [watchers.ASSETS, watchers.DECORATED])
def test_each_inbox_is_in_one_file(template: str, trigger: watchers.Trigger) -> None:
    files = watchers.dag_files(250, trigger, template)

    ranges = [(0, 100), (100, 200), (200, 250)]
    for (first, end), text in zip(ranges, files.values(), strict=True):
        compile(text, "watched.py", "exec")
        assert f"range({first}, {end})" in text
    assert watchers.consumer_of(249) == "consumer_200"


def test_messages_are_spread_over_the_inboxes_that_there_are() -> None:
    assert watchers.spread(3, 1000) == [0, 333, 666]
    assert watchers.spread(3, 2) == [0, 1, 0]


def test_a_meter_counts_from_its_beginning() -> None:
    polls = iter((10.0, 13.0))
    meter = Meter({"polls": lambda: next(polls), "this": cpu_of(lambda: [os.getpid(), 2**22 + 1])})
    sum(range(10**6))
    window = meter.window()

    assert window.used["polls"] == 3
    assert window.used["this"] >= 0
    assert window.machine >= 0
    assert megabytes(os.getpid()) > 10
    assert sockets(os.getpid()) >= 0


def test_what_a_poll_costs_leaves_out_what_the_process_takes_anyway() -> None:
    def taken(used: float, polls: float) -> watchers.Taken:
        return watchers.Taken(Window(10, {watchers.TRIGGERS: used, watchers.POLLS: polls}), 150, 20)

    cases = [(NOTHING, taken(0.1, 0)), (Case("watchers", 100, watchers.POLLING), taken(0.5, 200))]
    shown = {row.what: row.ours.median for row in rows_of_waiting(cases)}

    assert shown["no triggers: share of one core"] == pytest.approx(1)
    assert shown["100 watchers: share of one core"] == pytest.approx(5)
    assert shown["100 watchers: CPU per 1000 polls"] == pytest.approx(2)
    assert shown["100 watchers: sockets"] == 20


def test_the_total_of_the_steps_stands_beside_that_of_the_floor() -> None:
    shown = rows_of_steps({NOTICE: [[1.0] * 8, [2.0] * 8], FLOOR: [[1.0] * 8, [1.0] * 8]})

    assert (shown[0].ours.median, shown[0].ratio and shown[0].ratio.median) == (12, 1.5)
    assert shown[1].ours.median == 1.5 * len(OWN)
    assert len(shown) == 2 + 2 * len(STEPS)


def test_a_rate_is_that_from_the_first_message_to_the_last_finished_run() -> None:
    window = Window(30, {"Airflow": 6.0, "PostgreSQL": 3.0, MACHINE: 30.0})
    finished = Finished(WAYS[1], 3, [(15.0, 1), (30.0, 1)], window)
    shown = {row.what: row.ours.median for row in rows(finished, finished)}

    assert shown["sensor, 3 messages: finished per minute"] == 4
    assert shown["sensor, 3 messages: not finished in time"] == 1
    assert shown["sensor, 3 messages: CPU of Airflow per message"] == 3000
    nothing = Finished(WAYS[0], 3, [], window)
    assert len(rows(nothing, finished)) == 3
    assert rows(finished, nothing)[0].ratio is None


def test_the_delay_of_a_neighbor_is_shown_with_its_parts() -> None:
    shown = {row.what: row.ours.median for row in rows_of_neighbor("many", [(1, 2, 3), (3, 4, 5)], 3)}

    assert shown["many: another DAG, queued to first task running"] == 9
    assert shown["many: another DAG, queued to running"] == 2
    assert shown["many: another DAG, no task 180 s after the last"] == 1
    assert len(rows_of_neighbor("many", [], 3)) == 1


def test_a_message_is_lost_if_no_task_got_it_and_twice_if_more_than_one_did() -> None:
    assert Counts.of(range(3), {0: 1, 1: 4, 9: 1}) == Counts(sent=3, lost=1, twice=1)


def test_only_polls_are_counted() -> None:
    answered: list[str] = []

    def application(environ: dict[str, str], start_response: object) -> list[bytes]:
        answered.append(environ["PATH_INFO"])
        return [b"answer"]

    counted = counting(application)
    for target in (POLL, "AmazonSQS.SendMessage", POLL):
        assert counted({"PATH_INFO": "/", "HTTP_X_AMZ_TARGET": target}, print) == [b"answer"]
    assert counted({"PATH_INFO": POLLS}, lambda *_: None) == [b"2"]
    assert answered == ["/", "/", "/"]


def test_the_database_of_a_redis_address_is_used() -> None:
    assert '"db": 7' in redis_connection("redis://127.0.0.1:6379/7")
    assert '"db": 0' in redis_connection("redis://127.0.0.1:6379")


async def test_the_trigger_of_the_floor_emits_an_event_each_time(tmp_path: Path) -> None:
    path = str(tmp_path / "pipe")
    os.mkfifo(path)
    name, arguments = PipeTrigger(path).serialize()
    assert name == "benchmarks.timed.PipeTrigger"
    events = PipeTrigger(**arguments).run()
    for _ in range(2):
        emitted = asyncio.ensure_future(anext(events))
        await asyncio.sleep(0)  # it opens the pipe
        assert not emitted.done()
        tell(path)
        assert (await emitted).payload["at"] > 0
    await events.aclose()  # type: ignore[attr-defined]
    with pytest.raises(OSError, match="No such device"):
        tell(path)
