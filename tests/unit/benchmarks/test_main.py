"""The command line of the benchmarks."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path

import pytest

from benchmarks import __main__ as command
from benchmarks import client, parse
from benchmarks.results import alone
from benchmarks.scale import runs, watchers
from benchmarks.servers import RABBITMQ_VARIABLE
from tests.crash.topology import POSTGRES_VARIABLE, REDIS_VARIABLE


def test_each_name_is_a_benchmark() -> None:
    names = [*command.NAMES, *(part.replace("-", ".") for part in command.PARTS), "peers.peers"]

    assert all(callable(import_module(f"benchmarks.{name}").run) for name in names)


def test_only_what_is_named_runs_and_one_that_fails_discards_nothing_of_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(parse, "run", lambda quick: [alone(f"quick: {quick}", "s", [1.0])])
    monkeypatch.setattr(client, "run", lambda quick: 1 / 0)
    path = tmp_path / "out.json"

    code = command.main(["--only", "parse", "--only", "client", "--quick", "--json", str(path)])

    written = json.loads(path.read_text())
    assert (code, written["quick"], [row["what"] for row in written["rows"]]) == (1, True, ["quick: True"])
    shown = capsys.readouterr()
    assert "Failed: client." in shown.out
    assert "ZeroDivisionError" in shown.err
    assert command.main(["--only", "parse", "--json", str(path)]) == 0


def test_parts_of_scale_get_their_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options: list[dict[str, object]] = []
    monkeypatch.setenv(POSTGRES_VARIABLE, "postgresql://server")
    for part in (watchers, runs):
        monkeypatch.setattr(part, "run", lambda **named: options.append(named) or [alone("it", "s", [1.0])])
    words = "--only scale-watchers --only scale-runs --sizes 10 --sizes 20 --messages 5 --json"

    assert command.main([*words.split(), str(tmp_path / "out.json")]) == 0
    assert options == [{"quick": False, "sizes": [10, 20]}, {"quick": False, "messages": 5}]


@pytest.mark.parametrize(
    ("name", "variables"),
    [
        ("scale", [POSTGRES_VARIABLE, REDIS_VARIABLE]),
        ("peers", [POSTGRES_VARIABLE, REDIS_VARIABLE, RABBITMQ_VARIABLE]),
    ],
)
def test_servers_that_are_not_named_are_asked_for_before_anything_runs(
    name: str, variables: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parse, "run", lambda quick: pytest.fail("it runs"))
    for variable in variables:
        monkeypatch.delenv(variable, raising=False)
    for variable in variables:
        with pytest.raises(SystemExit, match=f"set {variable}, for example to"):
            command.main(["--only", "parse", "--only", name])
        monkeypatch.setenv(variable, "a server")


def test_the_bytecode_of_the_package_is_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(command, "ROOT", tmp_path)
    for folder in ("airflow_provider_workflow", "benchmarks"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "module.py").touch()
    command.compile_all()
    assert len(list(tmp_path.rglob("*.pyc"))) == 2


def test_a_name_that_is_none_is_rejected(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command.main(["--only", "speed"])
    assert "'speed'" in capsys.readouterr().err
