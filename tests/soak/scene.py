"""An Airflow and a service in which all is well, but that tokens end soon."""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import certifi

from airflow_provider_workflow.emulator.server import EmulatorServer
from tests.crash.account import Account
from tests.crash.recipes import Recipe
from tests.crash.scene import Scene
from tests.crash.topology import Topology
from tests.e2e.users import store
from tests.soak import probe, sampling
from tests.soak.recipes import IDLE, INBOXES, LISTENER_CONN, RECIPES, USER_CONN
from tests.soak.sampling import Sampler
from tools.airflow_settings import create_database

TOKEN_SECONDS = 20.0
"""How long an access token lives: it is renewed every 10 s, and every event stream ends when its own does."""
USER_TOKEN_SECONDS = 120.0


@dataclass(frozen=True)
class Services:
    """
    :param own: of the application, whose tokens end soon.
    :param users: of the user, whose tokens live longer: Airflow's supervisor masks each value of a Variable
        that it ever gave out, and theirs lie in one.
    """

    own: EmulatorServer
    users: EmulatorServer

    @classmethod
    @contextmanager
    def started(cls) -> Iterator[Services]:
        with (
            EmulatorServer(token_seconds=TOKEN_SECONDS) as own,
            EmulatorServer(token_seconds=USER_TOKEN_SECONDS) as users,
        ):
            services = cls(own, users)
            for name in INBOXES:
                services.of(name).open_inbox(name)
            yield services

    @property
    def all(self) -> tuple[EmulatorServer, EmulatorServer]:
        return self.own, self.users

    def of(self, inbox: str) -> EmulatorServer:
        """The one that has an inbox."""
        return self.users if IDLE.get(inbox) == USER_CONN else self.own

    def counts(self) -> dict[str, int]:
        """What they can tell of those who use them."""
        return {
            "event streams open": sum(len(server.emulator.streams.open) for server in self.all),
            "streams opened": sum(server.count("events") for server in self.all),
            "tokens issued": sum(server.count("token") for server in self.all),
        }

    def summary(self, inbox: str) -> dict[str, Any]:
        """Everything about an inbox."""
        return self.of(inbox).summary(inbox)

    def connections(self, home: Path) -> dict[str, str]:
        """What Airflow is given, by connection id."""
        listener, user = self.own.connection(), self.users.connection()
        listener["extra"]["verify"] = str(shutil.copy(certifi.where(), home / "ca.pem"))
        user["extra"]["grant"] = "refresh_token"
        return {
            "workflow_default": self.own.connection_json(),
            LISTENER_CONN: json.dumps(listener),
            USER_CONN: json.dumps(user),
        }


@dataclass(frozen=True)
class SoakScene(Scene):
    """The same, with services that need no patience."""

    service: Services  # type: ignore[assignment]

    def put(self, recipe: Recipe, number: int) -> None:
        """Put a message."""
        account, payload = self.accounts[recipe], {"number": number}
        (message_id,) = self.service.of(recipe.inbox).put(recipe.inbox, payload)
        account.put[message_id], account.payloads[message_id] = time.time(), payload

    def sample(self, sampler: Sampler, at: float) -> None:
        """
        Sample all that is looked at.

        :param at: seconds since the first sample.
        """
        groups = sampling.processes(self.airflow)
        sampler.take(at, groups)
        for name, members in groups.items():
            for process in members:
                sampler.note(at, name, probe.read(inside(self.airflow.home), process.pid), process.pid)
        sampler.note(at, "the service", self.service.counts())


def inside(home: Path) -> Path:
    """Where the probe writes what it counts."""
    return home / "inside"


@contextmanager
def running(topology: Topology, home: Path) -> Iterator[SoakScene]:
    """The whole of it, in a home that is empty."""
    inside(home).mkdir()
    with Services.started() as services:
        dags, env = Path(__file__).parent / "dags", {"WORKFLOW_SOAK_INSIDE": str(inside(home))}
        airflow = topology.airflow(home, dags, services.connections(home), env)
        # Before anything starts: without his tokens the user's watcher would begin with a long pause.
        create_database(sys.executable, home, airflow.env)
        store(services.users, airflow.env, expires_in=USER_TOKEN_SECONDS)
        accounts = {recipe: Account(recipe.name, {}) for recipe in RECIPES}
        with airflow:
            yield SoakScene(airflow, services, home, accounts)
