"""The command line of the benchmarks."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path

import pytest

from tests.benchmarks import __main__ as command
from tests.benchmarks import client, parse
from tests.benchmarks.results import alone


def test_every_name_is_a_benchmark() -> None:
    modules = {name: import_module(f"tests.benchmarks.{name}") for name in command.NAMES}

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


def test_a_name_that_is_none_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command.main(["--only", "speed"])
    assert "'speed'" in capsys.readouterr().err
