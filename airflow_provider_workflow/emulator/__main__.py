"""``python -m airflow_provider_workflow.emulator``: the service in a terminal."""

from __future__ import annotations

import argparse
import shlex
import signal
import threading
from collections.abc import Callable, Sequence
from functools import partial

from airflow_provider_workflow.emulator.arguments import ARGUMENTS
from airflow_provider_workflow.emulator.server import EmulatorServer


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m airflow_provider_workflow.emulator",
        description="A local workflow service: guess, templates, tokens, promotions and trigger inboxes.",
    )
    for flag, given in ARGUMENTS:
        parser.add_argument(flag, **given)
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the command line, and serve."""
    return serve(parse(arguments), partial(print, flush=True))


def serve(options: argparse.Namespace, say: Callable[[str], None]) -> int:
    """
    Serve until SIGINT or SIGTERM.

    :param options: as ``ARGUMENTS`` has them.
    :param say: told where the service is, once it is.
    """
    stopped = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopped.set())
    server = EmulatorServer(
        host=options.host,
        port=options.port,
        state_path=options.state,
        quarantine_after=options.quarantine_after,
        initializing_seconds=options.initializing_seconds,
    )
    with server:
        for name in options.inbox:
            server.open_inbox(name)
        say(greeting(server, options.inbox))
        stopped.wait()
    return 0


def greeting(server: EmulatorServer, inboxes: Sequence[str]) -> str:
    """Say where the service is, and what to do next."""
    name = inboxes[0] if inboxes else "demo"
    put = f'{{"inbox": "{name}", "create": true, "payloads": [{{"hello": "world"}}]}}'
    return f"""The workflow service listens on {server.base_url}

Let Airflow find it (in the shell that starts Airflow):
  export AIRFLOW_CONN_WORKFLOW_DEFAULT={shlex.quote(server.connection_json())}

Put a message into the inbox {name!r}:
  curl -s {server.base_url}/_emulator/messages -d {shlex.quote(put)}

See what became of it:
  curl -s {server.base_url}/_emulator/inboxes/{name}

Stop with Ctrl-C."""


if __name__ == "__main__":
    raise SystemExit(main())
