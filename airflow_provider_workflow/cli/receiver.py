"""``receiver``: the same as ``python -m airflow_provider_workflow.receiver``."""

from __future__ import annotations

import logging
from argparse import Namespace

from airflow_provider_workflow.cli import output
from airflow_provider_workflow.cli.running import Exit


def receiver(args: Namespace) -> int:
    """
    Show the addresses of inboxes, or answer notifications until SIGINT or SIGTERM.

    :raises ValueError: an argument is missing or wrong.
    """
    from airflow_provider_workflow.receiver.command import prepared, serve, shown_urls

    if args.show_urls:
        output.write(shown_urls(args))
        return Exit.OK
    # Unlike other commands, a server logs what it does.
    logging.disable(logging.NOTSET)
    logging.getLogger("airflow_provider_workflow.receiver").setLevel(logging.INFO)
    return serve(*prepared(args))
