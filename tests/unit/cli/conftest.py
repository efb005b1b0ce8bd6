"""The commands as somebody types them, with what comes out and the exit code."""

from __future__ import annotations

import io
import json
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from airflow import settings
from sqlalchemy import Engine, create_engine

from airflow_provider_workflow.cli.main import main, parser
from airflow_provider_workflow.emulator.server import EmulatorServer
from tests.unit.cli.database import Database
from tests.unit.cli.dead_letter_runs import dead_letter_runs
from tools.airflow_settings import create_database, environment, sqlite

__all__ = ["dead_letter_runs"]


@dataclass(frozen=True)
class Outcome:
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Cli = Callable[..., Outcome]

shared_parser = cache(parser)
"""Most of what a short command does is to build it; parsing does not change it."""


class Terminal(io.StringIO):
    """A stream that a person sits at."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def cli(
    connected_emulator: EmulatorServer, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Cli:
    """Run ``airflow-workflow`` with these arguments, in this process, against the emulator."""
    monkeypatch.setattr("airflow_provider_workflow.cli.main.parser", shared_parser)

    def run(*arguments: str) -> Outcome:
        capsys.readouterr()
        try:
            code = main(arguments)
        except SystemExit as exit_error:  # the parser's
            code = int(exit_error.code or 0)
        return Outcome(code, *capsys.readouterr())

    return run


@pytest.fixture(scope="session")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of an Airflow of its own, whose database is migrated and empty."""
    home: Path = tmp_path_factory.mktemp("home")
    env = environment(home, home / "dags", 8080, {})
    env["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"] = sqlite(home)
    create_database(sys.executable, home, env)
    return env


@pytest.fixture(scope="session")
def engine(migrated: dict[str, str]) -> Engine:
    """Of the file that `database` writes; one for all tests, as it keeps the statements that it compiled."""
    return create_engine(sqlite(Path(migrated["AIRFLOW_HOME"]) / "copy"))


@pytest.fixture
def database(migrated: dict[str, str], engine: Engine) -> Iterator[Database]:
    """A metadata database of the test's own, which Airflow uses in this process."""
    assert engine.url.database
    copy = Path(engine.url.database)
    # What was written and is not in the file yet is in files beside it.
    shutil.rmtree(copy.parent, ignore_errors=True)
    copy.parent.mkdir()
    copy.write_bytes((Path(migrated["AIRFLOW_HOME"]) / copy.name).read_bytes())
    before = settings.Session.session_factory.kw["bind"]
    settings.Session.remove()
    settings.Session.configure(bind=engine)
    try:
        yield Database()
    finally:
        settings.Session.remove()
        settings.Session.configure(bind=before)
        engine.dispose()
