"""
What 50 browsers with the page Inboxes open cost Airflow's API server, while tasks run: beside the same server
and the same tasks without a browser. The requests are those of the page's own client, in Node.js.
"""

from __future__ import annotations

import json
import secrets
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from airflow_provider_workflow.emulator.server import EmulatorServer
from benchmarks.meter import Meter, cpu_of
from benchmarks.results import Row, alone, compared
from benchmarks.stage import HERE, put, stage
from tools.local_airflow import LocalAirflow

DAG_IDS = ("listen", "handle")
INBOXES = 20
MESSAGES = 100
"""Waiting in each inbox but the first."""
WARM_UP_SECONDS = 60.0
"""Time to open all browsers, and for their requests to become steady."""
PUT_SECONDS = 2.0
"""From one message to the next, whose run has a task."""

Answers = dict[str, int]
"""How many requests of the browsers were ``answered``, and how many ``failed``."""


def run(*, quick: bool) -> list[Row]:
    """
    Measure; ``quick`` with few browsers, and a shorter time.

    :raises RuntimeError: Node.js is not installed.
    """
    if shutil.which("node") is None:
        raise RuntimeError("The browsers are played by Node.js: install node, version 20 or later")
    rounds, seconds, number = (1, 10.0, 4) if quick else (3, 60.0, 50)
    inboxes = [f"inbox_{index}" for index in range(INBOXES)]
    without_page: list[float] = []
    with_page: list[float] = []
    answers: list[Answers] = []
    with with_login() as options, stage("dags/page.py", DAG_IDS, inboxes, **options) as (service, airflow):
        for inbox in inboxes[1:]:
            put(service, inbox, MESSAGES)
        share_of(service, airflow, seconds)  # imports what the first requests need
        for _ in range(rounds):
            without_page.append(share_of(service, airflow, seconds))
            with browsers(airflow, number) as count:
                time.sleep(WARM_UP_SECONDS)
                before = count()
                with_page.append(share_of(service, airflow, seconds))
                after = count()
            answers.append({name: after[name] - before[name] for name in after})
    return rows(number, seconds, with_page, without_page, answers)


def rows(
    number: int,
    seconds: float,
    with_page: Sequence[float],
    without_page: Sequence[float],
    answers: Sequence[Answers],
) -> list[Row]:
    """
    What so many browsers add to the API server, and what became of their requests.

    :param seconds: in which each share and each number of requests was taken.
    :param with_page: percent of one core, round by round.
    """
    title = f"page Inboxes, {number} browsers"
    added = [share - other for share, other in zip(with_page, without_page, strict=True)]
    return [
        compared(f"{title}: API server, share of one core", "%", with_page, "no browser", without_page),
        alone(f"{title}: what they add to it", "%", added, at_most=5.0),
        alone(f"{title}: requests", "per second", [answer["answered"] / seconds for answer in answers]),
        alone(
            f"{title}: requests that failed", "requests", [answer["failed"] for answer in answers], at_most=0
        ),
    ]


@contextmanager
def with_login() -> Iterator[dict[str, Any]]:
    """Options of an Airflow in which users log in: without it makes and checks a token in each request."""
    login = ("admin", secrets.token_hex(8))
    with tempfile.NamedTemporaryFile("w", suffix=".json") as passwords:
        json.dump(dict([login]), passwords)
        passwords.flush()
        prefix = "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_"
        env = {"ALL_ADMINS": "False", "USERS": "admin:admin", "PASSWORDS_FILE": passwords.name}
        yield {"login": login, "env": {f"{prefix}{name}": value for name, value in env.items()}}


def share_of(service: EmulatorServer, airflow: LocalAirflow, seconds: float) -> float:
    """Percent of one core that the API server takes, while a message is put every few seconds."""
    meter, until = (
        Meter({"API server": cpu_of(lambda: airflow.pids("api-server"))}),
        time.monotonic() + seconds,
    )
    while time.monotonic() < until:
        put(service, "inbox_0", 1)
        time.sleep(PUT_SECONDS)
    return meter.window().share("API server")


@contextmanager
def browsers(airflow: LocalAirflow, number: int) -> Iterator[Callable[[], Answers]]:
    """Keep so many browsers open during the context; gives a function that counts their requests so far."""
    words = [f"{airflow.url}/", airflow.api.token(), "workflow_default", str(number)]
    command = ["node", str(HERE / "browsers.mjs"), *words]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        questions, answers = process.stdin, process.stdout
        assert questions is not None
        assert answers is not None

        def count() -> Answers:
            questions.write("\n")
            questions.flush()
            counts: Answers = json.loads(answers.readline())
            return counts

        try:
            yield count
        finally:
            process.kill()
