"""The demo: the emulator, a real Airflow, and a live view of messages that become DAG runs.

``make demo`` runs until Ctrl-C; ``make demo ONCE=1`` ends by itself, with exit code 0 if each message has
exactly one run, and all runs succeeded.
"""

from __future__ import annotations

import argparse
import random
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

from airflow_provider_workflow.emulator.server import EmulatorServer
from tools.airflow_settings import create_database
from tools.demo_view import Messages, Screen
from tools.local_airflow import LocalAirflow

ROOT = Path(__file__).resolve().parent.parent
HOME = ROOT / ".demo"
INBOX = "orders"
LISTENER, HANDLER = "order_listener", "handle_order"
PORT = 8080
ONCE_BURSTS = (1, 3, 6, 10)
BURST_PAUSE_SECONDS = 5.0
ONCE_SECONDS = 120.0
REFRESH_SECONDS = 0.5
ENVIRONMENT = {"AIRFLOW__WORKERS__MIN_HEARTBEAT_INTERVAL": "1"}
"""A listener that has just been deferred can be resumed after 2 s instead of 6 s."""
FRUITS = ("apples", "pears", "plums", "cherries", "quinces")


def main() -> int:
    """Run the demo; return 0 if each message has exactly one run."""
    parser = argparse.ArgumentParser(prog="make demo", description=__doc__)
    parser.add_argument("--once", action="store_true", help="end when all messages have had their runs")
    once = parser.parse_args().once
    shutil.rmtree(HOME, ignore_errors=True)
    screen = Screen()
    with EmulatorServer() as service:
        for name in (INBOX, "invoices", "events", "shipments"):
            service.open_inbox(name)
        airflow = LocalAirflow(
            HOME, ROOT / "dags_examples", env=ENVIRONMENT, port=_port(), parallelism=8, log_level="INFO"
        )
        try:
            screen.say("Setting up Airflow ...")
            _add_connection(airflow, service)
            airflow.start()
            airflow.wait_for_dags([LISTENER, HANDLER])
            screen.say(f"Airflow's page: {airflow.url}    Its logs: {HOME.relative_to(ROOT)}/")
            return _run(service, airflow, screen, once=once)
        except KeyboardInterrupt:
            screen.say("Stopping ...")
            return 0
        finally:
            airflow.stop()


def _run(service: EmulatorServer, airflow: LocalAirflow, screen: Screen, *, once: bool) -> int:
    messages = Messages(service, airflow.api, INBOX, HANDLER)
    bursts = list(ONCE_BURSTS)
    put_next, ends_at = time.monotonic(), time.monotonic() + ONCE_SECONDS
    with screen.live(airflow.url) as show:
        while True:
            if time.monotonic() >= put_next and (bursts or not once):
                size = bursts.pop(0) if once else random.choice((1, 1, 2, 5))
                service.put(INBOX, *({"fruit": random.choice(FRUITS), "crates": n + 1} for n in range(size)))
                put_next = time.monotonic() + BURST_PAUSE_SECONDS
            messages.look()
            show(messages)
            if once and not bursts and messages.all_done():
                break
            if once and time.monotonic() > ends_at:
                screen.say(f"Not done after {ONCE_SECONDS:g} s: {messages.totals()}\n{airflow.tails()}")
                return 1
            time.sleep(REFRESH_SECONDS)
    runs = len(airflow.api.dag_runs(HANDLER))
    screen.say(f"{messages.totals()}; DAG runs in Airflow: {runs}")
    return 0 if runs == len(messages.rows) else 1


def _add_connection(airflow: LocalAirflow, service: EmulatorServer) -> None:
    """Store the connection in the database, so that Airflow's UI shows it."""
    create_database(sys.executable, airflow.home, airflow.env)
    command = ["connections", "add", "workflow_default", "--conn-json", service.connection_json()]
    subprocess.run(
        [sys.executable, "-m", "airflow", *command], env=airflow.env, check=True, capture_output=True
    )


def _port() -> int | None:
    """Airflow's default port, if it is free."""
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", PORT))
        except OSError:
            return None
    return PORT


if __name__ == "__main__":
    sys.exit(main())
