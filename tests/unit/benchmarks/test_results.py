"""What the benchmarks show of their samples, what their command line does, and what needs no Airflow."""

from __future__ import annotations

import asyncio
import json
import os
from importlib import import_module
from pathlib import Path

import pytest

from benchmarks import __main__ as command
from benchmarks import client, parse
from benchmarks.results import alone, compared, table
from benchmarks.servers import RABBITMQ_VARIABLE
from benchmarks.timed import AT, PipeTrigger, notify
from tests.crash.topology import POSTGRES_VARIABLE, REDIS_VARIABLE

ROW = alone("it", "s", [1.0])


def test_a_benchmark_that_is_named_runs_alone_and_its_rows_are_shown_and_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    calls: list[bool] = []
    monkeypatch.setattr(client, "run", lambda quick: calls.append(quick) or [ROW])
    monkeypatch.setattr(parse, "run", lambda quick: pytest.fail("was not named"))
    path = tmp_path / "new" / "out.json"

    command.main(["--only", "client", "--quick", "--json", str(path), "--plots", str(tmp_path)])

    written = json.loads(path.read_text())
    assert calls == [True]
    assert [(row["benchmark"], row["what"]) for row in written["rows"]] == [("client", "it")]
    assert written["quick"] is True
    shown = capsys.readouterr().out
    assert "\nclient\nit    s" in shown
    assert "Drawn: nothing" in shown


def test_a_benchmark_that_fails_leaves_the_rows_of_the_others_and_exit_code_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(client, "run", lambda quick: 1 / 0)
    monkeypatch.setattr(parse, "run", lambda quick: [ROW])
    path = tmp_path / "out.json"

    assert command.main(["--only", "client", "--only", "parse", "--json", str(path)]) == 1
    assert [row["benchmark"] for row in json.loads(path.read_text())["rows"]] == ["parse"]
    shown = capsys.readouterr()
    assert "Failed: client." in shown.out
    assert "ZeroDivisionError" in shown.err
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
    await events.aclose()
    with pytest.raises(OSError, match="No such device"):
        notify(path)
