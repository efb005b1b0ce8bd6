"""What a deferrable sensor does on the worker: it reads its trigger's event, and heeds Airflow's flags."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from airflow.providers.common.compat.sdk import (
    AirflowException,
    AirflowFailException,
    AirflowSensorTimeout,
    AirflowSkipException,
)

from airflow_provider_workflow import metrics
from airflow_provider_workflow.client.inboxes import FAILED, PAUSED
from airflow_provider_workflow.dispatch.lease import HeldLease
from airflow_provider_workflow.dispatch.session import InboxNotActiveError, InboxUnusableError


@contextmanager
def skipping_instead(*, soft_fail: bool, never_fail: bool) -> Iterator[None]:
    """What poke mode does for ``soft_fail`` and ``never_fail``, for code that poke mode does not call."""
    try:
        yield
    except AirflowSkipException:
        raise
    except Exception as error:
        final = isinstance(error, (AirflowSensorTimeout, AirflowFailException))
        if never_fail or (soft_fail and final):
            raise AirflowSkipException(f"Skipped instead of failing: {error}") from error
        raise


def lease_of(inbox: str, event: dict[str, Any]) -> HeldLease | None:
    """
    The lease that a ``WorkflowInboxTrigger`` hands over; None where it only says that it is time to look.

    :param inbox: how the inbox is named in an error.
    :raises InboxNotActiveError: the inbox is paused and has no more messages.
    :raises InboxUnusableError: the inbox failed to initialise.
    :raises AirflowException: the event is not one of the trigger's.
    """
    status = event.get("status")
    if status == "leased":
        inbox_id, name = event.get("inbox_id") or "", event.get("inbox_name")
        if inbox_id and name:
            # This process has not looked the inbox up, and its metrics are to have the same name.
            metrics.remember_name(inbox_id, name)
        return replace(HeldLease.taken_over(event["lease"]), inbox_id=inbox_id)
    if status == "look":
        return None
    if status == PAUSED:
        raise InboxNotActiveError(inbox, event.get("reason"))
    if status == FAILED:
        raise InboxUnusableError(inbox, event.get("reason"))
    raise AirflowException(f"The trigger sent an event that is not known: {status!r}")
