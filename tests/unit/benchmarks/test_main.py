"""The command line of the benchmarks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import __main__ as command
from benchmarks import client, parse
from benchmarks.results import alone
from benchmarks.servers import RABBITMQ_VARIABLE
from tests.crash.topology import POSTGRES_VARIABLE, REDIS_VARIABLE


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
