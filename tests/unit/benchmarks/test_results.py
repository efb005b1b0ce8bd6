"""What the benchmarks show of their samples, what their command line does, and what needs no Airflow."""

from __future__ import annotations

import asyncio
import json
import mmap
import os
import socket
import sys
import time
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks import __main__ as command
from benchmarks import client, parse
from benchmarks.meter import MACHINE, MEGABYTE, Meter, cpu_of, megabytes, resident, sockets
from benchmarks.peers.ways import redis_connection
from benchmarks.results import alone, compared, table
from benchmarks.servers import RABBITMQ_VARIABLE
from benchmarks.sleeping import SleepingTrigger
from benchmarks.sqs import POLL, counting
from benchmarks.sqs import POLLS as QUEUE_POLLS
from benchmarks.timed import AT, PipeTrigger, notify
from benchmarks.watchers import (
    LISTENING,
    POLLED_QUEUE,
    POLLING,
    QUEUE_VARIABLE,
    SLEEPING,
    Trigger,
    dag_files,
)
from tests.crash.topology import POSTGRES_VARIABLE, REDIS_VARIABLE

ROW = alone("it", "s", [1.0])


def test_a_benchmark_that_is_named_runs_alone_and_its_rows_are_shown_and_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    calls: list[bool] = []
    monkeypatch.setattr(client, "run", lambda quick: calls.append(quick) or [ROW])  # type: ignore[func-returns-value]
    monkeypatch.setattr(parse, "run", lambda quick: pytest.fail("was not named"))
    path = tmp_path / "new" / "out.json"

    command.main(["--only", "client", "--quick", "--json", str(path), "--plots", str(tmp_path)])

    document = json.loads(path.read_text())
    assert calls == [True]
    assert [(row["benchmark"], row["what"]) for row in document["rows"]] == [("client", "it")]
    assert document["quick"] is True
    output = capsys.readouterr().out
    assert "\nclient\nit    s" in output
    assert "Drawn: nothing" in output


def test_a_benchmark_that_fails_leaves_the_rows_of_the_others_and_exit_code_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(client, "run", lambda quick: 1 / 0)
    monkeypatch.setattr(parse, "run", lambda quick: [ROW])
    path = tmp_path / "out.json"

    assert command.main(["--only", "client", "--only", "parse", "--json", str(path)]) == 1
    assert [row["benchmark"] for row in json.loads(path.read_text())["rows"]] == ["parse"]
    output = capsys.readouterr()
    assert "Failed: client." in output.out
    assert "ZeroDivisionError" in output.err
    assert command.main(["--only", "parse", "--json", str(path)]) == 0


def test_scale_runs_each_of_its_parts_once_with_the_numbers_of_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(POSTGRES_VARIABLE, "postgresql://server")
    monkeypatch.setenv(REDIS_VARIABLE, "redis://server")
    calls: list[tuple[str, dict[str, object]]] = []
    for part in command.PARTS:
        module = import_module(f"benchmarks.{part.replace('-', '.')}")
        monkeypatch.setattr(
            module, "run", lambda _part=part, **numbers: calls.append((_part, numbers)) or [ROW]
        )
    numbers = ["--sizes", "10", "--sizes", "20", "--messages", "5", "--json", str(tmp_path / "out.json")]

    assert command.main(["--only", "scale-runs", "--only", "scale", *numbers]) == 0

    assert calls[0] == ("scale-runs", {"quick": False, "messages": 5})
    assert dict(calls)["scale-watchers"] == {"quick": False, "sizes": [10, 20]}
    assert sorted(part for part, _ in calls) == sorted(command.PARTS)


@pytest.mark.parametrize(
    ("name", "servers", "missing"),
    [
        ("scale-runs", [], POSTGRES_VARIABLE),
        ("scale-runs", [POSTGRES_VARIABLE], None),
        ("scale", [POSTGRES_VARIABLE], REDIS_VARIABLE),
        ("scale", [POSTGRES_VARIABLE, REDIS_VARIABLE], None),
        ("peers", [POSTGRES_VARIABLE, REDIS_VARIABLE], RABBITMQ_VARIABLE),
        ("parse", [], None),
    ],
)
def test_a_benchmark_without_its_servers_ends_the_program_before_anything_runs(
    name: str, servers: list[str], missing: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in (POSTGRES_VARIABLE, REDIS_VARIABLE, RABBITMQ_VARIABLE):
        monkeypatch.delenv(variable, raising=False)
    for variable in servers:
        monkeypatch.setenv(variable, "server")
    calls: list[str] = []
    monkeypatch.setattr(command, "run", lambda name, options: calls.append(name) or [])
    arguments = ["--only", "client", "--only", name, "--json", str(tmp_path / "out.json")]
    if missing is None:
        assert command.main(arguments) == 0
    else:
        with pytest.raises(SystemExit, match=f"set {missing}, for example to "):
            command.main(arguments)
    assert bool(calls) is (missing is None)


def test_the_package_is_compiled_before_it_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "ROOT", tmp_path)
    for folder in ("airflow_provider_workflow", "benchmarks"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "module.py").touch()
    command.compile_all()
    compiled = sorted(path.relative_to(tmp_path).parts[0] for path in tmp_path.rglob("*.pyc"))
    assert compiled == ["airflow_provider_workflow", "benchmarks"]


def test_the_table_has_a_line_for_each_row_in_columns_below_the_name_of_its_benchmark() -> None:
    rows = {
        "client": [compared("CPU", "ms", [0.5, 0.7], "bare", [0.25, 0.35], at_most=1.25)],
        "parse": [alone("modules", "modules", [1234.0], at_most=2000), alone("time", "ms", [12.345])],
    }
    assert table(rows).splitlines()[:-2] == [
        "what     unit     n  ours              beside                      ratio  aim",
        "",
        "client",
        "CPU      ms       2  0.6 (0.55..0.65)  bare    0.3 (0.275..0.325)  2      at most 1.25, missed",
        "",
        "parse",
        "modules  modules  1  1234                                                 at most 2000",
        "time     ms       1  12.35",
    ]


def test_what_is_compared_with_zero_has_neither_a_ratio_nor_a_missed_aim() -> None:
    row = compared("modules", "modules", [3.0, 2.0], "bare", [0.0, 1.0], at_most=1)
    assert (row.ratio, row.aim) == (None, "")


async def test_the_trigger_of_the_floor_emits_an_event_each_time_that_it_is_notified(tmp_path: Path) -> None:
    path = str(tmp_path / "pipe")
    os.mkfifo(path)
    name, arguments = PipeTrigger(path).serialize()
    assert name == "benchmarks.timed.PipeTrigger"
    events = PipeTrigger(**arguments).run()
    for _ in range(2):
        emitted = asyncio.ensure_future(anext(events))
        await asyncio.sleep(0)  # it opens the pipe
        assert not emitted.done()
        notify(path)
        assert (await emitted).payload[AT] > 0
    await events.aclose()  # type: ignore[attr-defined]
    with pytest.raises(OSError, match="No such device"):
        notify(path)


def test_sockets_that_a_process_opens_are_counted() -> None:
    before = sockets(os.getpid())
    ends = socket.socketpair()
    assert sockets(os.getpid()) == before + 2
    for end in ends:
        end.close()


def test_memory_that_is_shared_counts_in_part_in_megabytes_and_in_full_as_resident(tmp_path: Path) -> None:
    size = 16
    (tmp_path / "shared").write_bytes(b"x" * size * MEGABYTE)
    with (
        open(tmp_path / "shared") as file,
        mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as one,
        mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as other,
    ):
        me = os.getpid()
        in_part, in_full = megabytes(me), resident()
        assert bytes(one) == bytes(other)
        in_part, in_full = megabytes(me) - in_part, resident() - in_full
    assert in_full - in_part > size / 2


def test_the_cpu_of_a_process_is_counted_in_seconds() -> None:
    meter, until = Meter({"test": cpu_of(lambda: [os.getpid()])}), time.process_time() + 0.2
    while time.process_time() < until:
        pass
    assert 0.1 < meter.window().used["test"] < 10  # neither ticks nor milliseconds


def test_the_machine_is_busy_except_when_it_is_idle_and_guests_count_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = ("user", "nice", "system", "irq", "softirq", "steal", "idle", "iowait", "guest", "guest_nice")
    times = [SimpleNamespace(**dict.fromkeys(names, 0.0))]
    monkeypatch.setattr("benchmarks.meter.psutil.cpu_times", lambda: times[-1])
    meter = Meter({})
    times.append(SimpleNamespace(**{name: 2.0**number for number, name in enumerate(names)}))
    assert meter.window().used[MACHINE] == 0b111111


def test_polls_of_queues_are_counted_and_other_requests_are_not() -> None:
    paths: list[str] = []

    def application(environ: dict[str, str], start_response: object) -> list[bytes]:
        paths.append(environ["PATH_INFO"])
        return [b"answer"]

    counting_application = counting(application)
    for target in (POLL, "AmazonSQS.SendMessage", POLL):
        assert list(counting_application({"PATH_INFO": "/", "HTTP_X_AMZ_TARGET": target}, print)) == [
            b"answer"
        ]
    assert list(counting_application({"PATH_INFO": QUEUE_POLLS}, lambda *_: None)) == [b"2"]
    assert paths == ["/"] * 3


@pytest.mark.parametrize(
    ("trigger", "arguments"),
    [
        (LISTENING, {"inbox": "inbox_3", "poll_interval": 60.0}),
        (
            POLLING,
            {"inbox": "inbox_3", "poll_interval": 5.0, "max_poll_interval": 5.0, "wake_on_events": False},
        ),
        (SLEEPING, {"name": "inbox_3"}),
        (POLLED_QUEUE, {"sqs_queue": "http://sqs/inbox_3", "wait_time_seconds": 0, "waiter_delay": 5}),
    ],
    ids=["listening", "polling", "sleeping", "polled queue"],
)
def test_dag_files_make_triggers_that_wait_as_long_as_those_that_they_are_compared_with(
    trigger: Trigger, arguments: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    class SqsSensorTrigger(SleepingTrigger):
        """That of the provider, which is not installed here."""

        def __init__(self, **kwargs: object) -> None:
            super().__init__("queue")
            self.arguments = kwargs

        def serialize(self) -> tuple[str, dict[str, Any]]:
            return "SqsSensorTrigger", self.arguments

    monkeypatch.setitem(
        sys.modules,
        "airflow.providers.amazon.aws.triggers.sqs",
        SimpleNamespace(SqsSensorTrigger=SqsSensorTrigger),
    )
    monkeypatch.setenv(QUEUE_VARIABLE, "http://sqs/")
    names: dict[str, Any] = {}
    exec(dag_files(4, trigger)["watched_0"], names)
    (watcher,) = names["watched"]("inbox_3").watchers
    _, trigger_arguments = watcher.trigger.serialize()
    assert {name: trigger_arguments[name] for name in arguments} == arguments


@pytest.mark.parametrize(("address", "number"), [("redis://host:6379/7", 7), ("redis://host:6379", 0)])
def test_the_connection_to_redis_has_the_database_of_its_address(address: str, number: int) -> None:
    connection = json.loads(redis_connection(address))
    assert (connection["host"], connection["port"]) == ("host", 6379)
    assert connection["extra"] == {"db": number}
