"""DAG runs: their ids, and how a task starts, finds and counts them (``TaskRuns``)."""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from functools import cache, cached_property
from typing import Any, Protocol

from cachetools import LRUCache
from pydantic import ValidationError

from airflow_provider_workflow import observers
from airflow_provider_workflow.airflow_internals import (
    PARENT_TRACE,
    http_status_error,
    is_started_by_hand,
    lineage_of,
    stored_dag_run,
    trigger_dag_run,
)
from airflow_provider_workflow.client import tolerant_json
from airflow_provider_workflow.dispatch.delivery import Delivery
from airflow_provider_workflow.dispatch.payload_store import PayloadStore, digest_of
from airflow_provider_workflow.dispatch.payloads import payload_of, storable
from airflow_provider_workflow.dispatch.run_errors import MessageFault, ServerFault, TargetError, error_of
from airflow_provider_workflow.inbox_names import name_of
from airflow_provider_workflow.text import ascii_of, quoted

log = logging.getLogger(__name__)

RUN_ID_PREFIX = "workflow__"
DEAD_LETTER_PREFIX = f"{RUN_ID_PREFIX}dead__"
KEY_PREFIX = f"{RUN_ID_PREFIX}key__"
"""Of a run whose id follows from a business key."""
MAX_RUN_ID_LENGTH = 250
# A run id travels unquoted in an address: anything else could end up as the id of another run.
_SAFE_ID = re.compile(r"[A-Za-z0-9_.~:+-]+")
UNFINISHED = ["queued", "running"]
MAX_KNOWN_REPEATS = 10_000
"""As many as one task leases messages."""


class Start(Enum):
    """The outcome of starting a run."""

    STARTED = "started"
    EXISTING = "existing"
    REPEATED = "repeated"  #: another message with the same business key has the run


def run_id_of(message_id: str, inbox_id: str, prefix: str = RUN_ID_PREFIX) -> str:
    """
    The run id of a message: always the same, so that a redelivered message finds its run.

    It ends with 16 hex digits of a hash of the ids of inbox and message, as message ids may be unique within
    an inbox only. A message id that is too long, is no safe part of a run id, or would make a run look like a
    dead letter or like that of a business key, is replaced by the whole hash.

    :param prefix: that of runs, of dead letters, or of business keys (of their JSON).
    """
    inbox = _bytes(inbox_id)
    digest = hashlib.sha256(b"%d:%b%b" % (len(inbox), inbox, _bytes(message_id))).hexdigest()
    run_id = f"{prefix}{message_id}__{digest[:16]}"
    is_safe = _SAFE_ID.fullmatch(message_id) and ".." not in message_id
    is_own = not f"{RUN_ID_PREFIX}{message_id}".startswith((DEAD_LETTER_PREFIX, KEY_PREFIX))
    return run_id if is_safe and is_own and len(run_id) <= MAX_RUN_ID_LENGTH else prefix + digest


def is_run_id(text: str) -> bool:
    """Whether a string may be the run id of a message."""
    is_safe = _SAFE_ID.fullmatch(text) and ".." not in text and len(text) <= MAX_RUN_ID_LENGTH
    is_dead_letter = text.startswith(DEAD_LETTER_PREFIX)
    return bool(is_safe and text.startswith(RUN_ID_PREFIX) and not is_dead_letter)


def existing_start(stored: Any, run_id: str, conf: Mapping[str, Any]) -> Start | None:
    """
    Whether an existing run is that of the message in a conf, or of its key; None if it is neither.

    A message that has the key of another one, and another payload, is logged as a warning.

    :param stored: the conf of the existing run: of a message, or of a dead letter.
    :param run_id: the id of both.
    :param conf: with ``inbox_id``, and either ``message`` or ``message_id``. The connection is not compared,
        as it may be renamed between two deliveries.
    """
    if not isinstance(stored, dict):
        return None
    (stored_inbox, stored_message), (inbox, message) = _identity(stored), _identity(conf)
    if stored_inbox != inbox:
        return None
    if stored_message == message:
        return Start.EXISTING
    if stored_message is None or not run_id.startswith(KEY_PREFIX):
        return None
    if not _have_same_payload(stored, conf):
        log.warning(
            "Inbox %s: message %s has the business key of message %s, and another payload; its run is that of"
            " message %s, so this payload starts none",
            name_of(inbox or "", str(conf.get("connection_id"))),
            message,
            stored_message,
            stored_message,
        )
    return Start.REPEATED


def _have_same_payload(*confs: Mapping[str, Any]) -> bool:
    """Whether the messages in two confs have the same payload; one in a payload store is not read for it."""
    messages = [message if isinstance(message := conf.get("message"), dict) else {} for conf in confs]
    in_store = any("payload_object" in message for message in messages)
    one, other = (_digest_of(message) if in_store else _payload_text(message) for message in messages)
    return one == other


def _payload_text(message: Mapping[str, Any]) -> str | None:
    """The payload of a message, in a form that is the same before and after Airflow stored it."""
    try:
        payload = payload_of(message)
    except (TypeError, ValueError):  # of a run that a user made up
        return None
    return tolerant_json.dumped(tolerant_json.with_whole_numbers(payload), sort_keys=True)


def _digest_of(message: Mapping[str, Any]) -> Any:
    if "payload_object" in message:
        return message.get("payload_sha256")
    try:
        return digest_of(payload_of(message))
    except (TypeError, ValueError):  # of a run that a user made up
        return None


def _identity(conf: Mapping[str, Any]) -> list[str | None]:
    message = conf.get("message")
    message_id = message.get("id") if isinstance(message, dict) else conf.get("message_id")
    names = conf.get("inbox_id"), message_id
    return [ascii_of(name) if isinstance(name, str) else None for name in names]


def _bytes(text: str) -> bytes:
    return text.encode(errors="surrogatepass")


class Runs(Protocol):
    """Starts, finds and counts runs: from a task, or from the command line."""

    def check_target(self, dag_id: str, argument: str = "trigger_dag_id") -> None:
        """
        Check, without starting a run, that a DAG exists.

        :param argument: that names the DAG, for the error.
        :raises TargetError: it does not, or Airflow does not answer.
        """

    def start(self, dag_id: str, run_id: str, conf: dict[str, Any], note: str | None = None) -> Start:
        """
        Start a run of a message, or find that it exists. When this returns, the run is stored.

        A run with this id that another message or a user started is a rejection.

        :param note: shown on the page of the run.
        :raises RunRejected: Airflow rejects this run; nothing was started.
        :raises TargetError: the DAG is missing, broken or denied, or Airflow does not answer.
        """

    def find(self, dag_id: str, run_id: str, conf: Mapping[str, Any]) -> Start | None:
        """
        What the run with this id is to a message; None if there is none, or it is not its run.

        :param conf: names the message (see ``existing_start``).
        :raises TargetError: Airflow does not answer.
        """

    def unfinished(self, dag_id: str) -> int:
        """
        Runs of a DAG that are queued or running; 0 for an unknown DAG.

        :raises TargetError: Airflow does not answer.
        """


@dataclass(frozen=True)
class MessageRuns:
    """
    The runs of messages that one connection leases.

    :param connection_id: id of the Airflow connection.
    :param key_of: returns the business key of a message, or None; without it messages have none.
    :param context_of: returns the trace context of a message, or None; without it messages have none.
    :param store: for payloads that are not in the confs of runs; None if all are.
    """

    runs: Runs
    connection_id: str
    key_of: Callable[[Mapping[str, Any]], list[Any] | None] | None = None
    context_of: Callable[[Mapping[str, Any]], str | None] | None = None
    store: PayloadStore | None = None
    _known_repeats: LRUCache[tuple[str, str, bytes], str] = field(
        default_factory=lambda: LRUCache(MAX_KNOWN_REPEATS), init=False
    )
    """
    By DAG, run id and a hash of the payload, for messages with a business key that have their run: the
    message that the run is of, or an empty string if only a repeat of it was seen.
    """

    def run_id(self, delivery: Delivery) -> str:
        """The run id of a message: of its business key, or of its own id if it has none."""
        key = None
        with suppress(ValueError):  # the expression fails on it, and the message is rejected for that
            key = self.key_of(delivery.message) if self.key_of else None
        if key is None:
            return run_id_of(delivery.id, delivery.inbox_id)
        # A list is no safe part of a run id, so this does not show the key.
        return run_id_of(tolerant_json.dumped(key, sort_keys=True), delivery.inbox_id, KEY_PREFIX)

    def content_of(self, delivery: Delivery) -> dict[str, Any]:
        """
        The message as the conf of its run, or of its dead letter, has it: its payload may be in the store.

        :raises PayloadStoreError: the payload cannot be written.
        """
        if self.store is None:
            return delivery.message
        return self.store.with_reference(delivery.inbox_id, delivery.message)

    def start(self, dag_id: str, delivery: Delivery, content: Mapping[str, Any], note: str) -> Start:
        """
        Start the run of a message, or find it (see ``Runs.start``).

        Airflow is not asked again about a repeated message with the payload of one before: a sender that
        repeats itself does not hold up others.

        :param content: the message as ``content_of`` made it.
        """
        run_id, repeat = self.run_id(delivery), None
        if run_id.startswith(KEY_PREFIX):
            payload = tolerant_json.dumped(delivery.message["payload"], sort_keys=True)
            repeat = dag_id, run_id, hashlib.sha256(payload.encode()).digest()
            if (known := self._known_repeats.get(repeat)) is not None:
                return Start.EXISTING if known == delivery.id else Start.REPEATED
        name = name_of(delivery.inbox_id, self.connection_id)
        conf: dict[str, Any] = {
            "connection_id": self.connection_id,
            "inbox_id": delivery.inbox_id,
            "message": storable(content, inbox=name),
        }
        if self.context_of and (context := self.context_of(delivery.message)):
            conf[PARENT_TRACE] = context
        try:
            outcome = self.runs.start(dag_id, run_id, conf, note)
        except ServerFault:
            # Airflow may have stored the run before it failed.
            if (existing := self.find(dag_id, delivery)) is None:
                raise
            outcome = existing
        if repeat is not None:
            self._known_repeats[repeat] = "" if outcome is Start.REPEATED else delivery.id
        return outcome

    def find(self, dag_id: str, delivery: Delivery, *, dead_letter: bool = False) -> Start | None:
        """
        Whether a DAG has a run of a message, or of its dead letter, and whose it is; None if there is none.

        :raises TargetError: Airflow does not answer.
        """
        conf = {"connection_id": self.connection_id, "inbox_id": delivery.inbox_id}
        if dead_letter:
            run_id = run_id_of(delivery.id, delivery.inbox_id, DEAD_LETTER_PREFIX)
            return self.runs.find(dag_id, run_id, {**conf, "message_id": delivery.id})
        return self.runs.find(dag_id, self.run_id(delivery), {**conf, "message": delivery.message})


_NO_ANSWER = (OSError, EOFError, ValidationError)
"""The supervisor of the task is gone, or its answer cannot be decoded, whose text has values of a message."""


@cache
def _rejections() -> tuple[type[Exception], ...]:
    """The exceptions for a rejection by the API server; in ``dag.test()`` there is no supervisor between."""
    from airflow.sdk.exceptions import AirflowRuntimeError

    return AirflowRuntimeError, http_status_error()


@dataclass(frozen=True)
class TaskRuns:
    """
    Runs by way of the supervisor of a task (see ``Runs``).

    :param ti: the running task instance.
    """

    ti: Any

    def check_target(self, dag_id: str, argument: str = "trigger_dag_id") -> None:
        """
        See ``Runs.check_target``.

        Nothing shows an import error, a stale DAG or params that reject every conf: the first run does.
        """
        try:
            self.ti.get_dag(dag_id)
        except (*_rejections(), *_NO_ANSWER) as error:  # type: ignore[misc]
            raise _target_error(dag_id, error, argument) from None

    def start(self, dag_id: str, run_id: str, conf: dict[str, Any], note: str | None = None) -> Start:
        """See ``Runs.start``."""
        context = conf.get(PARENT_TRACE)
        conf = {**self._of_task, **conf}
        inbox_id, message_id = _identity(conf)
        source = {"inbox": inbox_id or "", "conn_id": str(conf.get("connection_id"))}
        is_dead_letter = "message" not in conf
        facts = {"dag_id": dag_id, "run_id": run_id, "dead_letter": is_dead_letter}
        with observers.attempt(
            "start_run", **source, message_ids=[message_id or ""], trace_context=context, facts=facts
        ):
            try:
                refusal = trigger_dag_run(dag_id, run_id, conf, note)
            except _rejections() as error:
                argument = "dead_letter_dag_id" if is_dead_letter else "trigger_dag_id"
                raise error_of(dag_id, error, argument) from None
            except _NO_ANSWER as error:
                raise _target_error(dag_id, error) from None
            except (ValueError, OverflowError, RecursionError) as error:
                # Nothing was sent.
                raise MessageFault(f"Airflow cannot encode its payload: {type(error).__name__}") from None
            if refusal not in (None, "DAGRUN_ALREADY_EXISTS"):
                raise TargetError(f"Airflow did not start a run of {dag_id!r}: {refusal}")
            outcome = Start.STARTED if refusal is None else Start.EXISTING
            facts["outcome"] = outcome.value
        if outcome is Start.STARTED:
            return outcome
        if (existing := self._existing(dag_id, run_id, conf)) is None:
            raise not_its_run(dag_id, run_id)
        return existing

    def find(self, dag_id: str, run_id: str, conf: Mapping[str, Any]) -> Start | None:
        """See ``Runs.find``."""
        # Airflow logs an error line for a run that it is asked for and does not have, so count first.
        if self._count(dag_id, run_ids=[run_id]) == 0:
            return None
        return self._existing(dag_id, run_id, conf)

    def _existing(self, dag_id: str, run_id: str, conf: Mapping[str, Any]) -> Start | None:
        try:
            run = stored_dag_run(dag_id, run_id)
        except (*_rejections(), *_NO_ANSWER) as error:  # type: ignore[misc]
            raise _target_error(dag_id, error) from None
        return None if is_started_by_hand(run) else existing_start(run.conf, run_id, conf)

    @cached_property
    def _of_task(self) -> dict[str, Any]:
        context = observers.trace_context()
        return {**lineage_of(self.ti), **({PARENT_TRACE: context} if context else {})}

    def unfinished(self, dag_id: str) -> int:
        """See ``Runs.unfinished``."""
        return self._count(dag_id, states=UNFINISHED)

    def _count(self, dag_id: str, **which: Any) -> int:
        try:
            return int(self.ti.get_dr_count(dag_id=dag_id, **which))
        except (*_rejections(), *_NO_ANSWER) as error:  # type: ignore[misc]
            raise TargetError(
                f"Airflow does not count the runs of {dag_id!r}: {type(error).__name__}. No message is lost."
            ) from None


def not_its_run(dag_id: str, run_id: str) -> MessageFault:
    """The rejection of a message whose run id another run has."""
    return MessageFault(
        f"the run {run_id} of the DAG {dag_id!r} exists, and a user or another message started it: delete it"
    )


def origin_of(context: Any) -> str:
    """The DAG and run of a task, for the notes of the runs that it starts."""
    ti = context["ti"]
    return f"the run {quoted(ti.run_id, MAX_RUN_ID_LENGTH)} of {quoted(ti.dag_id, MAX_RUN_ID_LENGTH)}"


def _target_error(dag_id: str, error: Exception, argument: str = "trigger_dag_id") -> TargetError:
    """The error of a call that was not about a message."""
    if isinstance(error, _NO_ANSWER):
        return TargetError(
            f"The task's supervisor gives no usable answer: {type(error).__name__}. No message is lost."
        )
    fault = error_of(dag_id, error, argument)
    if isinstance(fault, TargetError):
        return fault
    return TargetError(f"Airflow cannot check the DAG {dag_id!r}: {fault}. No message is lost.")
