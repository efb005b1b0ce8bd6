"""Tasks that call a function with batches of messages, and such functions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from airflow_provider_workflow.dispatch.batches import Batches
from airflow_provider_workflow.dispatch.runs import TaskRuns
from airflow_provider_workflow.limits import Limits
from tests.unit.workbench import INBOX, Workbench

NAMED = "named in MessagesFailed"
RAISED = "the function raised ValueError"


@dataclass
class Function:
    """
    A function of a user, which is given messages.

    :param bad: ids of messages for which it fails.
    :param names: whether it then names them; otherwise it raises for the whole batch.
    :param meanwhile: happens while it works on messages, whose ids it is given.
    """

    bad: set[str] = field(default_factory=set)
    names: bool = False
    meanwhile: Callable[[list[str]], object] = lambda ids: None
    calls: list[list[dict[str, Any]]] = field(default_factory=list)

    def __call__(self, messages: list[dict[str, Any]]) -> dict[str, str]:
        self.calls.append(messages)
        self.meanwhile([message["id"] for message in messages])
        failed_ids = [message["id"] for message in messages if message["id"] in self.bad]
        if failed_ids and not self.names:
            raise ValueError(f"cannot read {messages[0]['payload']}")
        return dict.fromkeys(failed_ids, NAMED)

    @property
    def ids(self) -> list[list[str]]:
        """The ids of the messages of each call."""
        return [[message["id"] for message in messages] for messages in self.calls]


def batches(bench: Workbench, function: Function, **limits: Any) -> Batches:
    return Batches(
        bench.hook,
        INBOX,
        function,
        TaskRuns(bench.ti),
        Limits(**limits),
        attempt=bench.ti.try_number,
        dead_letter_rules=bench.dead_letter_rules,
    )


def retry(bench: Workbench) -> None:
    bench.ti.try_number += 1


def counts_of(bench: Workbench) -> dict[str, int]:
    return {
        message["id"]: message["message_attributes"]["lease_count"]
        for message in bench.hook.list_messages(INBOX)
    }
