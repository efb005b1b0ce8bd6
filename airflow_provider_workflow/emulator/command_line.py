"""
The command line of the emulator. Its options are data, which ``airflow-workflow emulator`` uses too.

Importing this module loads neither the rules nor the web server: Airflow reads the options for each
``airflow`` command.
"""

from __future__ import annotations

import argparse
import shlex
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

DEFAULT_PORT = 8765

OPTIONS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("--host", {"default": "127.0.0.1", "help": "address to listen on (default: %(default)s)"}),
    (
        "--port",
        {"type": int, "default": DEFAULT_PORT, "help": "0 picks a free port (default: %(default)s)"},
    ),
    ("--state", {"type": Path, "metavar": "FILE", "help": "keep the state in this SQLite file"}),
    (
        "--inbox",
        {
            "action": "append",
            "default": [],
            "metavar": "NAME",
            "help": "create this inbox unless it exists",
        },
    ),
)
"""Flags, and further arguments of ``add_argument``."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse the command line, and serve."""
    return serve(parse(arguments), partial(print, flush=True))


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m airflow_provider_workflow.emulator",
        description="A local workflow service: guess, templates, tokens, promotions and trigger inboxes.",
    )
    for flag, keywords in OPTIONS:
        parser.add_argument(flag, **keywords)
    return parser.parse_args(arguments)


def serve(options: argparse.Namespace, show: Callable[[str], None]) -> int:
    """
    Serve until SIGINT or SIGTERM.

    :param options: as ``OPTIONS`` declares them.
    :param show: called with the URL of the service and the next steps, once it answers.
    :return: the exit code; 1 if a host, a port, a state file or an inbox cannot be used.
    """
    from airflow_provider_workflow.emulator.rules.errors import ServiceError
    from airflow_provider_workflow.emulator.server import EmulatorServer

    stopped = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopped.set())
    try:
        server = EmulatorServer(
            host=options.host, port=options.port, state_path=options.state, inboxes=options.inbox
        ).start()
    except (OSError, ServiceError) as error:
        print(f"The emulator cannot start: {error}", file=sys.stderr)
        return 1
    show(greeting(server.base_url, server.connection_json(), options.inbox))
    stopped.wait()
    server.stop()
    return 0


def greeting(base_url: str, connection: str, inboxes: Sequence[str]) -> str:
    """The URL of the service, and the next steps."""
    name = inboxes[0] if inboxes else "demo"
    create = "" if inboxes else " --create"
    return f"""The emulator of the workflow service listens on {base_url}

Connect Airflow to it (in the shell that starts Airflow):
  export AIRFLOW_CONN_WORKFLOW_DEFAULT={shlex.quote(connection)}

Put a message into the inbox {name!r}, and count its messages:
  airflow-workflow put {shlex.quote(name)} '{{"hello": "world"}}' --url {base_url}{create}
  curl -s '{base_url}/_emulator/inboxes/{quote(name)}?messages=0'

Stop with Ctrl-C."""
