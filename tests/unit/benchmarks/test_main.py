"""The command line of the benchmarks."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path

import pytest

from benchmarks import __main__ as command
from benchmarks import client, parse
from benchmarks.results import alone
from benchmarks.scale import watchers
from benchmarks.scale.wanted import Wanted
from tests.crash.topology import POSTGRES_VARIABLE


def test_every_name_is_a_benchmark() -> None:
    modules = {name: import_module(f"benchmarks.{name}") for name in command.NAMES}

    assert [name for name, module in modules.items() if not callable(module.run)] == []


def test_only_what_is_named_runs_and_it_is_shown_and_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = []
    monkeypatch.setattr(client, "run", lambda quick: asked.append(quick) or [alone("it", "s", [1.0])])
    monkeypatch.setattr(parse, "run", lambda quick: pytest.fail("not asked for"))

    command.main(["--only", "client", "--quick", "--json", str(tmp_path / "out.json")])

    assert asked == [True]
    assert "it    s" in capsys.readouterr().out
    assert [row["what"] for row in json.loads((tmp_path / "out.json").read_text())["rows"]] == ["it"]


def test_one_that_fails_discards_nothing_of_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(parse, "run", lambda quick: [alone("it", "s", [1.0])])
    monkeypatch.setattr(client, "run", lambda quick: 1 / 0)
    path = tmp_path / "out.json"

    failed = command.main(["--only", "parse", "--only", "client", "--json", str(path)])
    assert (failed, [row["what"] for row in json.loads(path.read_text())["rows"]]) == (1, ["it"])
    shown = capsys.readouterr()
    assert "Failed: client." in shown.out
    assert "ZeroDivisionError" in shown.err
    assert command.main(["--only", "parse", "--json", str(path)]) == 0


def test_parts_of_scale_get_their_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = []
    monkeypatch.setenv(POSTGRES_VARIABLE, "postgresql://server")
    monkeypatch.setattr(watchers, "run", lambda wanted: given.append(wanted) or [alone("it", "s", [1.0])])
    arguments = "--only scale-watchers --sizes 10 --sizes 20 --messages 5 --quick --json"

    assert command.main([*arguments.split(), str(tmp_path / "out.json")]) == 0
    assert given == [Wanted(quick=True, sizes=(10, 20), messages=5)]
    assert json.loads((tmp_path / "out.json").read_text())["quick"] is True


def test_a_server_that_is_not_named_is_asked_for_before_anything_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(POSTGRES_VARIABLE, raising=False)
    monkeypatch.setattr(parse, "run", lambda quick: pytest.fail("it runs"))
    with pytest.raises(SystemExit, match=POSTGRES_VARIABLE):
        command.main(["--only", "parse", "--only", "scale"])


def test_the_bytecode_of_the_package_is_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(command, "ROOT", tmp_path)
    for folder in command.COMPILED:
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "module.py").touch()
    command.compile_all()
    assert len(list(tmp_path.rglob("*.pyc"))) == len(command.COMPILED)


def test_a_name_that_is_none_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command.main(["--only", "speed"])
    assert "'speed'" in capsys.readouterr().err
