"""The demo: the emulator, a real Airflow, and a live view of messages that become DAG runs.

``make demo`` runs until Ctrl-C; ``make demo CHAOS=1`` kills processes of Airflow while 60 messages arrive.
Both end with a verdict. With ``ONCE=1`` they end by themselves, with exit code 0 if each message has exactly
one run, and all runs succeeded.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from itertools import repeat
from pathlib import Path
from typing import TypeVar

import requests

from airflow_provider_workflow import clock
from airflow_provider_workflow.emulator.server import EmulatorServer
from tools.airflow_api import AirflowAPIError
from tools.demo_kills import LEASE_SECONDS, PLAN, RECOVERY, Kills
from tools.demo_messages import Messages, Verdict, order
from tools.demo_view import Screen
from tools.local_airflow import LocalAirflow

T = TypeVar("T")

ROOT = Path(__file__).resolve().parent.parent
HOMES = ROOT / ".demo"
EXAMPLE = ROOT / "dags_examples" / "inbox_listener.py"
INBOX = "orders"
PAGE = "/plugin/workflow-inboxes"
"""Path of the page Inboxes in Airflow's UI."""
LISTENER, HANDLER = "order_listener", "handle_order"
ENVIRONMENT = {"AIRFLOW__WORKERS__MIN_HEARTBEAT_INTERVAL": "1"}
"""A listener that has just been deferred can be resumed after 6 s instead of 10 s."""
REFRESH_SECONDS = 0.5
STEP_SECONDS = 0.05
VERDICT_SECONDS = 60.0
ONCE_SECONDS = 120.0
CHAOS_SECONDS = 420.0
BURST_SECONDS = 3.0
"""Least time between two bursts of messages."""
CHAOS_BURSTS = (2, 4, 6)
"""Messages of the bursts that are put for each kill."""
FIRST_MESSAGE = "The first message takes longer, as Airflow is still starting the listener."
CHAOS = (
    f"{len(PLAN)} processes will be killed with kill -9. A message that a killed process had leased is "
    f"redelivered when its lease expires, {LEASE_SECONDS} s after it was leased. Airflow's own thresholds "
    "are shortened, so that it notices a killed process in seconds; no clock is changed."
)


def burst_sizes(*, once: bool, chaos: bool) -> Iterator[int]:
    """The number of messages of each burst; without end unless the demo is to end."""
    if chaos:
        return iter(CHAOS_BURSTS * len(PLAN))
    return iter((1, 3, 6, 10)) if once else (random.choice((1, 1, 2, 5)) for _ in repeat(None))


class Demo:
    """What the demo shows, once Airflow runs.

    :param once: end when all messages have had their runs.
    :param chaos: kill processes meanwhile.
    """

    def __init__(
        self, service: EmulatorServer, airflow: LocalAirflow, screen: Screen, *, once: bool, chaos: bool
    ) -> None:
        self._service, self._airflow, self._screen, self._chaos = service, airflow, screen, chaos
        self._messages = Messages(service, airflow.api, INBOX, HANDLER)
        self._kills = Kills(airflow, service, INBOX, LISTENER, PLAN if chaos else ())
        self._sizes = burst_sizes(once=once, chaos=chaos)
        self._next_size = next(self._sizes, None)
        self._bursts, self._next_burst_at = 0, 0.0
        self.limit_seconds = CHAOS_SECONDS if chaos else ONCE_SECONDS if once else float("inf")

    def run(self) -> bool:
        """Show messages until all have had their runs; whether they had, before the limit."""
        began_at, refreshed = clock.monotonic(), float("-inf")
        with self._screen.live(self._airflow.url + PAGE) as show:
            while not self._is_finished():
                now = clock.monotonic()
                if now > began_at + self.limit_seconds:
                    return False
                self._put_and_kill(now - began_at)
                if now > refreshed + REFRESH_SECONDS:
                    refreshed = now
                    tolerant(self._messages.look)
                    show(self._messages)
                clock.sleep(STEP_SECONDS)
        return True

    def verdict(self) -> Verdict:
        """Count the messages of the service and the runs of Airflow."""
        api = self._airflow.api
        (runs,) = api.wait_until(
            lambda: tolerant(lambda: (api.dag_runs(HANDLER),)), VERDICT_SECONDS, "the runs of the target"
        )
        messages = self._service.summary(INBOX)["messages"]
        return Verdict.of(messages, runs, self._kills.done if self._chaos else None)

    def _is_finished(self) -> bool:
        return self._next_size is None and self._kills.over and self._messages.all_done()

    def _put_and_kill(self, seconds: float) -> None:
        if self._is_burst_due(seconds):
            first = len(self._messages.rows) + 1
            self._messages.put(*map(order, range(first, first + (self._next_size or 0))))
            self._bursts += 1
            self._next_burst_at = seconds + BURST_SECONDS
            self._next_size = next(self._sizes, None)
        line = tolerant(lambda: self._kills.act(seconds))
        for text in [*self._kills.revive(), *([line] if line else [])]:
            self._screen.say(text)

    def _is_burst_due(self, seconds: float) -> bool:
        """Bursts for a kill wait for the kill before it, unless nothing is left that it could hit."""
        if self._next_size is None or seconds < self._next_burst_at:
            return False
        is_ahead = self._chaos and self._kills.done < self._bursts // len(CHAOS_BURSTS)
        return not is_ahead or self._messages.all_done()


def tolerant(call: Callable[[], T]) -> T | None:
    """Call; None while Airflow's API server or its database cannot answer."""
    try:
        return call()
    except requests.RequestException:
        return None
    except AirflowAPIError as error:
        if error.status < 500:
            raise
        return None


def main() -> int:
    """Run the demo; return 0 if each message has exactly one run."""
    parser = argparse.ArgumentParser(prog="make demo", description=__doc__)
    parser.add_argument("--once", action="store_true", help="end when all messages have had their runs")
    parser.add_argument("--chaos", action="store_true", help="kill processes of Airflow meanwhile")
    arguments = parser.parse_args()
    # Both explicitly: a shell starts a process in the background with Ctrl-C ignored.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    HOMES.mkdir(exist_ok=True)
    home = Path(tempfile.mkdtemp(dir=HOMES))
    code = _demonstrate(home, Screen(), once=arguments.once, chaos=arguments.chaos)
    if code == 0:
        shutil.rmtree(home, ignore_errors=True)
    return code


def _demonstrate(home: Path, screen: Screen, *, once: bool, chaos: bool) -> int:
    dags = home / "dags"
    dags.mkdir()
    env = ENVIRONMENT | (RECOVERY if chaos else {})
    airflow = LocalAirflow(home, dags, env=env, parallelism=8, log_level="INFO")
    with EmulatorServer() as service:
        service.open_inbox(INBOX)
        try:
            screen.say("Starting Airflow, which takes a minute or two ...")
            airflow.start()
            add_connection(airflow, service)
            text = EXAMPLE.read_text()
            (dags / EXAMPLE.name).write_text(with_short_leases(text) if chaos else text)
            screen.say("Airflow runs. It parses the DAG file ...")
            airflow.wait_for_dags([LISTENER, HANDLER])
            screen.say(f"Inboxes in Airflow: {airflow.url}{PAGE}\nLogs: {home.relative_to(ROOT)}/")
            if chaos:
                screen.say(CHAOS)
            screen.say(FIRST_MESSAGE)
            return show_messages(service, airflow, screen, once=once, chaos=chaos)
        except KeyboardInterrupt:
            screen.say("Stopping ...")
            return 0
        finally:
            airflow.stop()


def show_messages(
    service: EmulatorServer, airflow: LocalAirflow, screen: Screen, *, once: bool, chaos: bool
) -> int:
    """Show messages, then the verdict; return the exit code."""
    demo = Demo(service, airflow, screen, once=once, chaos=chaos)
    try:
        in_time = demo.run()
    except KeyboardInterrupt:
        screen.say("Stopping ...")
        verdict = demo.verdict()
        screen.say(verdict.text)
        return 0 if verdict.holds else 1
    if not in_time:
        screen.say(f"Not done after {demo.limit_seconds:g} s\n{airflow.tails()}")
    verdict = demo.verdict()
    screen.say(verdict.text)
    if not once:
        screen.say(f"Airflow stays at {airflow.url}; Ctrl-C stops everything")
        with contextlib.suppress(KeyboardInterrupt):
            while True:
                clock.sleep(1)
    return 0 if in_time and verdict.complete else 1


def add_connection(airflow: LocalAirflow, service: EmulatorServer) -> None:
    """Store the connection in the database, so that Airflow's UI shows it."""
    fields = service.connection()
    fields["extra"] = json.dumps(fields["extra"])
    airflow.api.request("POST", "connections", json={"connection_id": "workflow_default", **fields})


def with_short_leases(text: str) -> str:
    """
    The DAG file of the example, with the shortest leases: a killed process keeps messages for less time.

    :raises ValueError: the file does not name its inbox exactly once.
    """
    argument = f'inbox="{INBOX}"'
    if text.count(f"{argument},") + text.count(f"{argument})") != 1:
        raise ValueError(
            f"{EXAMPLE} does not have the argument {argument} exactly once; change tools/demo.py"
        )
    return text.replace(argument, f"{argument}, lease_seconds={LEASE_SECONDS}")


if __name__ == "__main__":
    sys.exit(main())
