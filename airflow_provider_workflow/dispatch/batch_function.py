"""The function that works on batches: what it is given, and for which messages it fails."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from airflow.providers.common.compat.sdk import AirflowException, AirflowSkipException

from airflow_provider_workflow import clock, tracing
from airflow_provider_workflow.client import types
from airflow_provider_workflow.client.wire import plain
from airflow_provider_workflow.config import traces
from airflow_provider_workflow.dispatch.lease import MARGIN_SECONDS, without_lease
from airflow_provider_workflow.dispatch.payloads import payload_of


class UnknownMessagesError(AirflowException):
    """
    ``MessagesFailed`` names ids that are not in the batch; nothing of the batch was acknowledged.

    :param unknown: the first of them.
    """

    def __init__(self, inbox: str, unknown: str, count: int) -> None:
        super().__init__(
            f"Inbox {inbox}: MessagesFailed names {count} ids that are not in the batch, such as"
            f" {plain(unknown)}. Give the ids of messages of this call; nothing of the batch was acknowledged"
        )


class LeaseTooShortError(AirflowException):
    """
    The function returned after its messages could have been leased again, or shortly before that.

    :param messages: of the lease.
    :param took: seconds since they were leased.
    """

    def __init__(self, inbox: str, messages: int, took: float, lease_seconds: int, batch_size: int) -> None:
        super().__init__(
            f"Inbox {inbox}: the work on {messages} leased messages took {took:.0f} s, and with"
            f" lease_seconds={lease_seconds} it may take {lease_seconds - MARGIN_SECONDS:.0f} s. Messages"
            " that were not acknowledged in time are redelivered. Increase lease_seconds (up to 3600), or"
            f" decrease batch_size (now {batch_size})"
        )


@dataclass
class BatchFunction:
    """
    The function of a task.

    :param inbox: id or name, for errors.
    :param work: called with messages; returns the ids of those that failed, each with the cause.
    :param calls: how often it was called.
    """

    inbox: str
    work: Callable[[list[dict[str, Any]]], Mapping[str, str]]
    calls: int = 0
    _longest: dict[bool, float] = field(default_factory=dict)

    def longest(self, count: int) -> float:
        """Seconds of the longest call with so many messages: one, or several; 0 before the first one."""
        return self._longest.get(count == 1, 0.0)

    def call(self, messages: list[types.LeasedMessage]) -> tuple[Mapping[str, str], Exception | None]:
        """
        Call the function.

        :return: the causes of the failed messages by id, and what it raised for a message that is alone.
        :raises AirflowSkipException: which is about the task.
        :raises Exception: what it raised for several messages.
        """
        began_at, alone = clock.monotonic(), len(messages) == 1
        self.calls += 1
        try:
            work = partial(self.work, [_given(each) for each in messages])
            ids = [each["id"] for each in messages]
            causes = tracing.process(self.inbox, ids, work) if traces() else work()
            if unknown := [*causes.keys() - set(ids)]:
                raise UnknownMessagesError(self.inbox, unknown[0], len(unknown))
            return causes, None
        except AirflowSkipException:
            raise
        except Exception as error:
            if not alone:
                raise
            # Not its text, which may quote the payload.
            return {messages[0]["id"]: f"the function raised {type(error).__name__}"}, error
        finally:
            self._longest[alone] = max(clock.monotonic() - began_at, self._longest.get(alone, 0.0))


def _given(message: types.LeasedMessage) -> dict[str, Any]:
    """A message as the function gets it: nothing of its lease, and its payload decoded at any depth."""
    part = without_lease(message)
    payload = payload_of(part)
    part.pop("payload_json", None)
    attributes = part["message_attributes"]
    # A copy: the delivery count must not change if the function changes it.
    return {**part, "payload": payload, "message_attributes": attributes and dict(attributes)}
