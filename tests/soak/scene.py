"""An Airflow and a service in which all is well, but that tokens end soon."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import certifi

from airflow_provider_workflow.emulator.server import EmulatorServer
from tests.crash.account import Account
from tests.crash.recipes import Recipe
from tests.crash.scene import Scene
from tests.crash.topology import Topology
from tests.e2e.users import store
from tests.soak import probe, sampling
from tests.soak.recipes import INBOXES, LISTENER_CONN, RECIPES, USER_CONN
from tests.soak.sampling import Sampler
from tools.airflow_settings import create_database
from tools.local_airflow import LocalAirflow

TOKEN_SECONDS = 20.0
"""How long an access token lives: it is renewed every 10 s, and every event stream ends when its own does."""
ROOT = Path(__file__).parents[2]
SERVICE = "the service"


@dataclass(frozen=True)
class SoakScene(Scene):
    """The same, with a service that needs no patience."""

    service: EmulatorServer  # type: ignore[assignment]

    @classmethod
    def of(cls, airflow: LocalAirflow, service: EmulatorServer) -> SoakScene:
        accounts = {recipe: Account(recipe.name, {}) for recipe in RECIPES}
        return cls(airflow, service, airflow.home, accounts)

    def put(self, recipe: Recipe, number: int) -> None:
        """Put a message."""
        (message_id,) = self.service.put(recipe.inbox, {"number": number})
        self.accounts[recipe].put[message_id] = time.time()

    def sample(self, sampler: Sampler, at: float) -> None:
        """
        Sample all that is looked at.

        :param at: seconds since the first sample.
        """
        groups = sampling.processes(self.airflow)
        sampler.take(at, groups)
        for name, members in groups.items():
            for process in members:
                sampler.note(at, name, probe.read(inside(self.airflow.home), process.pid))
        streams = len(self.service.emulator.streams.open)
        renewals = {
            "tokens issued": self.service.count("token"),
            "streams opened": self.service.count("events"),
        }
        sampler.note(at, SERVICE, {"event streams open": streams, **renewals})


def inside(home: Path) -> Path:
    """Where the probe writes what it counts."""
    return home / "inside"


@contextmanager
def running(chosen: Topology, home: Path) -> Iterator[SoakScene]:
    """The whole of it, in a home that is empty."""
    inside(home).mkdir()
    with EmulatorServer(token_seconds=TOKEN_SECONDS) as service:
        for name in INBOXES:
            service.open_inbox(name)
        airflow = LocalAirflow(
            home,
            Path(__file__).parent / "dags",
            _connections(service, home),
            {**chosen.env, "WORKFLOW_SOAK_INSIDE": str(inside(home)), "PYTHONPATH": str(ROOT), **_leak()},
            executor=chosen.executor,
            sql_alchemy_conn=chosen.database,
            log_level="INFO",
            components=chosen.components,
        )
        # Before anything starts: without his tokens the user's watcher would begin with a long pause.
        create_database(sys.executable, home, airflow.env)
        store(service, airflow.env, expires_in=TOKEN_SECONDS)
        with airflow:
            yield SoakScene.of(airflow, service)


def _connections(service: EmulatorServer, home: Path) -> dict[str, str]:
    listener, user = service.connection(), service.connection()
    listener["extra"]["verify"] = str(shutil.copy(certifi.where(), home / "ca.pem"))
    user["extra"]["grant"] = "refresh_token"
    return {
        "workflow_default": service.connection_json(),
        LISTENER_CONN: json.dumps(listener),
        USER_CONN: json.dumps(user),
    }


def _leak() -> dict[str, str]:
    return {"WORKFLOW_SOAK_LEAK": "1"} if os.environ.get("LEAK") else {}
