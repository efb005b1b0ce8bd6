"""``doctor`` as a test sees it: its findings by check, its text, its exit code."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import Any

import pytest

from airflow_provider_workflow.cli.main import main
from airflow_provider_workflow.emulator.server import EmulatorServer
from airflow_provider_workflow.hooks import user_tokens
from tests.unit.cli.database import Database
from tests.unit.client.isolation import isolated
from tests.unit.hooks.conftest import Connect, connect

__all__ = ["connect", "doctor", "isolated"]

Finding = dict[str, Any]


@dataclass(frozen=True)
class Diagnosis:
    """
    :param findings: what a script gets, in its order.
    :param shown: all that was printed, for whomever.
    """

    exit_code: int
    findings: list[Finding]
    shown: str

    def __getitem__(self, check: str) -> Finding:
        (found,) = (each for each in self.findings if each["check"] == check)
        return found

    def of(self, status: str) -> list[str]:
        """The checks that ended so."""
        return [each["check"] for each in self.findings if each["status"] == status]


@dataclass
class Doctor:
    """
    :param emulator: the service; its clock shows the machine's time.
    :param kept: Airflow's Variables.
    """

    emulator: EmulatorServer
    connect: Connect
    capsys: pytest.CaptureFixture[str]
    kept: dict[str, str]

    def examine(self, extra: dict[str, Any] | None = None, *arguments: str, **changes: Any) -> Diagnosis:
        """Examine a connection to the emulator with some of its fields changed, printed both ways."""
        # Loading the CA certificates takes longer than most tests.
        self.connect({"verify": False, **(extra or {})}, **changes)
        self.capsys.readouterr()
        assert main(["doctor", *arguments]) in (0, 1)
        table = "".join(self.capsys.readouterr())
        code = main(["doctor", "--output", "json", *arguments])
        out, err = self.capsys.readouterr()
        return Diagnosis(code, json.loads(out), table + out + err)


@pytest.fixture
def doctor(
    emulator: EmulatorServer,
    connect: Connect,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    database: Database,
) -> Doctor:
    """Examines connections to the emulator, in an Airflow without DAGs and without a triggerer."""
    emulator.store.clock.advance(time.time() - emulator.store.clock.now())
    kept: dict[str, str] = {}
    monkeypatch.setattr(user_tokens, "read_variable", kept.get)
    monkeypatch.setattr(user_tokens, "write_variable", kept.__setitem__)
    return Doctor(emulator, connect, capsys, kept)
