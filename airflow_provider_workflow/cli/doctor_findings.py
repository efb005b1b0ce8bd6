"""Findings of ``doctor``, and the order of its checks: those that depend on a failed one are skipped."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from airflow_provider_workflow.client.errors import ConfigurationError

if TYPE_CHECKING:
    from airflow_provider_workflow import types
    from airflow_provider_workflow.client.client import WorkflowClient
    from airflow_provider_workflow.client.errors import WorkflowError
    from airflow_provider_workflow.client.settings import Settings
    from airflow_provider_workflow.hooks.connection_test import Issued, Trial

OK = "ok"
WARNING = "warning"
FAILED = "failed"
SKIPPED = "skipped"


@dataclass(frozen=True)
class Finding:
    """
    One line of the diagnosis.

    :param check: name of the check.
    :param status: ``ok``, ``warning``, ``failed`` or ``skipped``.
    :param detail: what the check found.
    :param fix: how to fix the problem; None if there is none.
    """

    check: str
    status: str
    detail: str
    fix: str | None = None


@dataclass
class Subject:
    """
    What is examined, and results of checks that later checks use.

    :param conn_id: id of the Airflow connection.
    :param inbox: id or name of the one inbox to examine; None for all.
    :param listener_dag_ids: listener DAGs, in addition to those that are found.
    :param target_dag_ids: target DAGs, in addition to those that are found.
    """

    conn_id: str
    inbox: str | None = None
    listener_dag_ids: tuple[str, ...] = ()
    target_dag_ids: tuple[str, ...] = ()
    inboxes: list[types.Inbox] = field(default_factory=list)
    settings: Settings = field(init=False)
    trial: Trial = field(init=False)
    inbox_client: WorkflowClient = field(init=False)
    issued: Issued | None = None
    scope_refused: WorkflowError | None = None

    def has(self, name: str) -> bool:
        """Whether a check has set this attribute."""
        return hasattr(self, name)

    def close(self) -> None:
        """Close what the checks opened."""
        if self.has("inbox_client"):
            self.inbox_client.close()
        if self.has("trial"):
            self.trial.close()


@dataclass(frozen=True)
class Check:
    """
    A check.

    :param name: name of the check, also in ``needs``.
    :param examine: yields findings; none if the check does not apply.
    :param needs: names of the checks that must not have failed.
    """

    name: str
    examine: Callable[[Subject], Iterable[Finding]]
    needs: tuple[str, ...] = ()


def examine(checks: Iterable[Check], subject: Subject) -> Iterator[Finding]:
    """Run the checks in their order."""
    stopped: dict[str, str] = {}
    with closing(subject):
        for check in checks:
            cause = next((stopped[name] for name in check.needs if name in stopped), None)
            if cause is not None:
                stopped[check.name] = cause
                yield Finding(check.name, SKIPPED, f"cannot be examined before {cause} is fixed")
                continue
            for finding in _findings(check, subject):
                if finding.status in (FAILED, SKIPPED):
                    stopped[check.name] = check.name
                yield finding


def _findings(check: Check, subject: Subject) -> Iterator[Finding]:
    try:
        yield from check.examine(subject)
    except ConfigurationError as error:
        yield Finding(check.name, FAILED, "; ".join(error.problems), "correct these fields")
    except Exception as error:
        # Only the type: the text of an unexpected error may quote secrets.
        yield Finding(check.name, FAILED, f"the check itself failed: {type(error).__name__}")
