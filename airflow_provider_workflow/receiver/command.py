"""The command line of the receiver."""

from __future__ import annotations

import argparse
import logging
import os
import signal
import socket
import sys
from collections.abc import Sequence
from types import FrameType
from typing import NoReturn

from airflow_provider_workflow.receiver import options
from airflow_provider_workflow.receiver.app import Receiver, Settings
from airflow_provider_workflow.receiver.arguments import settings_of, urls_of
from airflow_provider_workflow.receiver.server import build_server, listen

log = logging.getLogger(__name__)


def main(arguments: Sequence[str] | None = None) -> int:
    """Show addresses, or serve until SIGINT or SIGTERM; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m airflow_provider_workflow.receiver", description=options.DESCRIPTION
    )
    for flag, given in options.OPTIONS:
        parser.add_argument(flag, **given)
    args = parser.parse_args(arguments)
    try:
        if args.show_urls:
            print(shown_urls(args))
            return 0
        settings, listener = prepared(args)
    except ValueError as error:
        parser.error(str(error))
    return serve(settings, listener)


def shown_urls(args: argparse.Namespace) -> str:
    """
    The address to give to the service for each inbox, a line for each.

    :raises ValueError: an argument is missing or wrong.
    """
    return "\n".join(f"{inbox}\t{url}" for inbox, url in urls_of(args, os.environ).items())


def prepared(args: argparse.Namespace) -> tuple[Settings, socket.socket]:
    """
    What :func:`serve` needs.

    :raises ValueError: an argument is missing or wrong.
    """
    settings = settings_of(args, os.environ)
    try:
        return settings, listen(args.host, args.port)
    except (OSError, OverflowError) as error:
        raise ValueError(
            f"--host and --port: cannot listen on {args.host}, port {args.port}: {error}"
        ) from None


def serve(settings: Settings, listener: socket.socket) -> int:
    """Answer notifications until SIGINT or SIGTERM; return the exit code."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _end)
    host, port = listener.getsockname()[:2]
    log.info("Listening on %s, port %s; --show-urls shows the address of each inbox", host, port)
    server = build_server(Receiver(settings))
    server.run(sockets=[listener])
    return 0 if server.started else 1


def _end(_number: int, _frame: FrameType | None) -> NoReturn:
    # Uvicorn raises the signal again once it has stopped: what was asked for is no failure.
    sys.exit(0)
