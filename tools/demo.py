"""The demo: the emulator, a real Airflow, and a live view of messages that become DAG runs.

``make demo`` runs until Ctrl-C; ``make demo CHAOS=1`` kills processes of Airflow while 60 messages arrive.
Both end with a verdict. With ``ONCE=1`` they end by themselves, with exit code 0 if each message has exactly
one run, and all runs succeeded.
"""

from __future__ import annotations

import argparse
import contextlib
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import requests

from airflow_provider_workflow import clock
from airflow_provider_workflow.emulator.server import EmulatorServer
from tools.airflow_api import AirflowAPIError
from tools.airflow_settings import create_database
from tools.demo_bursts import Bursts
from tools.demo_kills import LEASE_SECONDS, PLAN, RECOVERY, Kills
from tools.demo_verdict import Verdict
from tools.demo_view import Messages, Screen, Show
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
"""A listener that has just been deferred can be resumed after 2 s instead of 6 s."""
REFRESH_SECONDS = 0.5
STEP_SECONDS = 0.05
COMMAND_SECONDS = 120.0
VERDICT_SECONDS = 60.0
ONCE_SECONDS = 120.0
CHAOS_SECONDS = 420.0
FIRST_MESSAGE = "The first message takes longer, as Airflow is still starting the listener."
CHAOS = (
    f"{len(PLAN)} processes will be killed with kill -9. A message that a killed process had leased is "
    f"redelivered when its lease expires, {LEASE_SECONDS} s after it was leased. Airflow's own thresholds "
    "are shortened, so that it notices a killed process in seconds; no clock is changed."
)


class Demo:
    """What the demo shows, once Airflow runs.

    :param kills: None if nothing is killed.
    :param limit_seconds: after which it ends; None for a demo that runs until Ctrl-C.
    """

    def __init__(
        self,
        service: EmulatorServer,
        airflow: LocalAirflow,
        screen: Screen,
        bursts: Bursts,
        kills: Kills | None,
        limit_seconds: float | None,
    ) -> None:
        self._service, self._airflow, self._screen = service, airflow, screen
        self._bursts, self._kills, self._limit = bursts, kills, limit_seconds
        self._messages = Messages(service, airflow.api, INBOX, HANDLER)

    def run(self) -> bool:
        """Show messages until all have had their runs; whether they had, before the limit."""
        started, looked = clock.monotonic(), float("-inf")
        with self._screen.live(self._airflow.url + PAGE) as show:
            while not self._finished():
                now = clock.monotonic()
                if self._limit is not None and now > started + self._limit:
                    return False
                self._put_and_kill(now - started)
                if now > looked + REFRESH_SECONDS:
                    looked = now
                    self._refresh(show)
                clock.sleep(STEP_SECONDS)
        return True

    def verdict(self) -> Verdict:
        """Count the messages of the service and the runs of Airflow."""
        api = self._airflow.api
        answer = api.wait_until(
            lambda: tolerant(lambda: (api.dag_runs(HANDLER),)), VERDICT_SECONDS, "the runs of the target"
        )
        assert answer
        messages = self._service.summary(INBOX)["messages"]
        return Verdict.of(messages, answer[0], self._kills.done if self._kills else None)

    def _finished(self) -> bool:
        killed = self._kills is None or self._kills.over
        return self._bursts.over and killed and self._messages.all_done()

    def _put_and_kill(self, seconds: float) -> None:
        kills = self._kills
        made = kills.done if kills else 0
        self._messages.put(*self._bursts.due(seconds, made, idle=self._messages.all_done()))
        if kills is None:
            return
        line = tolerant(lambda: kills.act(seconds))
        for each in [*kills.revive(), *([line] if line else [])]:
            self._screen.say(each)

    def _refresh(self, show: Show) -> None:
        tolerant(self._messages.look)
        show(self._messages, self._kills.notice() if self._kills else "")


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
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.default_int_handler)
    HOMES.mkdir(exist_ok=True)
    home = Path(tempfile.mkdtemp(dir=HOMES))
    code = 1
    try:
        code = _demonstrate(home, Screen(), once=arguments.once, chaos=arguments.chaos)
    finally:
        if code == 0:
            shutil.rmtree(home, ignore_errors=True)
    return code


def _demonstrate(home: Path, screen: Screen, *, once: bool, chaos: bool) -> int:
    with EmulatorServer() as service:
        service.open_inbox(INBOX)
        airflow = _airflow(home, chaos=chaos)
        try:
            screen.say("Setting up Airflow ...")
            _add_connection(airflow, service)
            airflow.start()
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
    kills = Kills(airflow, service, INBOX, LISTENER, PLAN) if chaos else None
    bursts = Bursts.for_kills(len(PLAN)) if chaos else Bursts.few() if once else Bursts.endless()
    limit = (CHAOS_SECONDS if chaos else ONCE_SECONDS) if once or chaos else None
    demo = Demo(service, airflow, screen, bursts, kills, limit)
    try:
        in_time = demo.run()
    except KeyboardInterrupt:
        screen.say("Stopping ...")
        verdict = demo.verdict()
        screen.say(str(verdict))
        return 0 if verdict.kept else 1
    if not in_time:
        screen.say(f"Not done after {limit:g} s\n{airflow.tails()}")
    verdict = demo.verdict()
    screen.say(str(verdict))
    if not once:
        screen.say(f"Airflow stays at {airflow.url}; Ctrl-C stops everything")
        _wait_for_interrupt()
    return 0 if in_time and verdict.complete else 1


def _wait_for_interrupt() -> None:
    with contextlib.suppress(KeyboardInterrupt):
        while True:
            clock.sleep(1)


def _airflow(home: Path, *, chaos: bool) -> LocalAirflow:
    dags = home / "dags"
    dags.mkdir()
    text = EXAMPLE.read_text()
    (dags / EXAMPLE.name).write_text(with_short_leases(text) if chaos else text)
    env = ENVIRONMENT | (RECOVERY if chaos else {})
    return LocalAirflow(home, dags, env=env, parallelism=8, log_level="INFO")


def with_short_leases(text: str) -> str:
    """
    The DAG file of the example, with the shortest leases: a killed process keeps messages for less time.

    :raises ValueError: the file does not name its inbox exactly once.
    """
    named = f'inbox="{INBOX}"'
    if text.count(f"{named},") + text.count(f"{named})") != 1:
        raise ValueError(f"{EXAMPLE} does not have the argument {named} exactly once; change tools/demo.py")
    return text.replace(named, f"{named}, lease_seconds={LEASE_SECONDS}")


def _add_connection(airflow: LocalAirflow, service: EmulatorServer) -> None:
    """Store the connection in the database, so that Airflow's UI shows it."""
    create_database(sys.executable, airflow.home, airflow.env)
    command = ["connections", "add", "workflow_default", "--conn-json", service.connection_json()]
    subprocess.run(
        [sys.executable, "-m", "airflow", *command],
        env=airflow.env, check=True, capture_output=True, timeout=COMMAND_SECONDS,
    )  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
