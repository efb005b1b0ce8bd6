"""``python -m airflow_provider_workflow.emulator``: runs the emulator in a terminal."""

from __future__ import annotations

import argparse
import shlex
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from airflow_provider_workflow.emulator.rules.errors import ServiceError
from airflow_provider_workflow.emulator.server import EmulatorServer


def main(arguments: Sequence[str] | None = None) -> int:
    """
    Serve until SIGINT or SIGTERM.

    :param arguments: of the command line.
    :return: the exit code; 1 if a host, a port, a state file or an inbox cannot be used.
    """
    options = _parsed(arguments)
    stopped = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopped.set())
    try:
        server = EmulatorServer(
            host=options.host, port=options.port, state_path=options.state, inboxes=options.inbox
        ).start()
    except (OSError, ServiceError) as error:
        reason = f"--inbox: {error.detail}" if isinstance(error, ServiceError) else error
        print(f"The emulator cannot start: {reason}", file=sys.stderr)
        return 1
    print(greeting(server.base_url, server.connection_json(), options.inbox), flush=True)
    stopped.wait()
    server.stop()
    return 0


def _parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m airflow_provider_workflow.emulator",
        description="A local workflow service: guess, templates, tokens, promotions and trigger inboxes.",
    )
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument("--port", type=int, default=8765, help="0 picks a free port (default: %(default)s)")
    parser.add_argument("--state", type=Path, metavar="FILE", help="keep the state in this SQLite file")
    parser.add_argument(
        "--inbox",
        action="append",
        default=[],
        metavar="NAME",
        help="create this inbox unless it exists",
    )
    return parser.parse_args(arguments)


def greeting(base_url: str, connection: str, inboxes: Sequence[str]) -> str:
    """The URL of the service, and the next steps."""
    name = inboxes[0] if inboxes else "demo"
    create = "" if inboxes else " --create"
    return f"""The emulator of the workflow service listens on {base_url}

Connect Airflow to it (in the shell that starts Airflow):
  export AIRFLOW_CONN_WORKFLOW_DEFAULT={shlex.quote(connection)}

Put a message into the inbox {name!r}, and count its messages:
  airflow-workflow put {shlex.quote(name)} '{{"name": "Ada"}}' --url {base_url}{create}
  curl -s '{base_url}/_emulator/inboxes/{quote(name)}?messages=0'

Stop with Ctrl-C."""


if __name__ == "__main__":
    raise SystemExit(main())
