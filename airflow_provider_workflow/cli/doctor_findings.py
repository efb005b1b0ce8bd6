"""What ``doctor`` finds out, and in which order: a check that depends on one that failed is skipped."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from airflow_provider_workflow.client.errors import ConfigurationError

if TYPE_CHECKING:
    from airflow_provider_workflow.client import types
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

    :param check: what was examined.
    :param status: ``ok``, ``warning``, ``failed`` or ``skipped``.
    :param detail: what was seen.
    :param fix: what to do about it; None where there is nothing to do.
    """

    check: str
    status: str
    detail: str
    fix: str | None = None


@dataclass
class Subject:
    """
    What is examined, and what the checks have found out for those that follow.

    :param conn_id: id of the Airflow connection.
    :param inbox: id or name of the one inbox to examine; None for all.
    :param listener_dag_ids: DAGs that are to listen, beside those that are found.
    :param target_dag_ids: DAGs that messages are to start, beside those that are found.
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
        """Whether a check has found this out."""
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

    :param name: how the check is named, and how ``needs`` of others names it.
    :param examine: yields what it finds; nothing where it does not concern this subject.
    :param needs: checks without which it cannot be done.
    """

    name: str
    examine: Callable[[Subject], Iterable[Finding]]
    needs: tuple[str, ...] = ()


def examine(checks: Iterable[Check], subject: Subject) -> Iterator[Finding]:
    """Do the checks in their order."""
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
        yield Finding(check.name, FAILED, "; ".join(error.problems), "correct what is named here")
    except Exception as error:
        # By its type alone: nobody knows what a text from so deep inside quotes.
        yield Finding(check.name, FAILED, f"the check itself failed: {type(error).__name__}")
