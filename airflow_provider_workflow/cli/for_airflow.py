"""``airflow workflow``: the commands for Airflow's own command line (Airflow 3.2 and later)."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Callable
from typing import TYPE_CHECKING

from airflow_provider_workflow.cli.definition import COMMANDS, DESCRIPTION, EXIT_CODES, Command, Group

if TYPE_CHECKING:
    from airflow.cli.cli_config import ActionCommand, CLICommand, GroupCommand


def workflow_commands() -> list[CLICommand]:
    """Build what the ``cli`` entry of the provider info stands for."""
    from airflow.cli.cli_config import GroupCommand

    commands = [_group(each) if isinstance(each, Group) else _action(each) for each in COMMANDS]
    return [GroupCommand("workflow", DESCRIPTION, commands, epilog=EXIT_CODES)]


def _group(group: Group) -> GroupCommand:
    from airflow.cli.cli_config import GroupCommand

    return GroupCommand(group.name, group.help, [_action(each) for each in group.commands], epilog=EXIT_CODES)


def _action(command: Command) -> ActionCommand:
    from airflow.cli.cli_config import ActionCommand, Arg

    return ActionCommand(
        command.name,
        command.help,
        _running(command.function),
        [Arg(each.flags, **each.given) for each in command.options],
        description=command.description,
        epilog=EXIT_CODES,
    )


def _running(function: str) -> Callable[[Namespace], None]:
    def command(args: Namespace) -> None:
        from airflow_provider_workflow.cli.running import run

        # Airflow takes no notice of what a command returns.
        sys.exit(run(function, args))

    command.__name__ = function.rpartition(".")[2]
    return command
