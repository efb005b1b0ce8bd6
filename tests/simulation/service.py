"""The service, by the rules of the emulator, and the hook with which a process calls it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from airflow_provider_workflow.client.errors import (
    AuthenticationError,
    InboxPausedError,
    InvalidRequestError,
    LeaseExpiredError,
    NotFoundError,
    RateLimitError,
    ServerError,
    TransportError,
    WorkflowError,
)
from airflow_provider_workflow.emulator.rules.errors import ServiceError

if TYPE_CHECKING:
    from tests.simulation.scheduler import Process
    from tests.simulation.world import World

ATTEMPT_SECONDS = 30.0
"""The longest time of one attempt. A hook may wait longer, but only before the attempt."""
HURRIED_SECONDS = 5.0
MAX_WAIT_SECONDS = 60.0
NO_EFFECT: dict[str, Callable[[str], WorkflowError]] = {
    "refused": lambda operation: TransportError(f"{operation}: the connection was refused", sent=False),
    "reset": lambda operation: TransportError(f"{operation}: the connection was reset", sent=True),
    "429": lambda operation: RateLimitError(f"{operation}: 429", status=429, retry_after=30.0),
    "503": lambda operation: ServerError(f"{operation}: 503", status=503),
    "403": lambda operation: AuthenticationError(f"{operation}: 403", status=403),
    "404": lambda operation: NotFoundError(f"{operation}: 404", status=404),
}
"""Errors of calls that the service did not process."""
AFTER_EFFECT: dict[str, Callable[[str], WorkflowError]] = {
    "answer lost": lambda operation: TransportError(f"{operation}: no answer", sent=True),
    "503 after": lambda operation: ServerError(f"{operation}: 503", status=503),
}
"""Errors of calls that the service did process."""
FAULTS = (
    *("refused", "reset", "429", "503", "refused", "reset", "429", "503", "403", "404"),
    *("answer lost", "503 after", "slow", "answer lost", "503 after", "slow", "waits", "waits"),
)


class Hook:
    """
    What ``dispatch`` uses of ``WorkflowHook``.

    :param for_shutdown: whether each call takes a few seconds at most.
    """

    workflow_conn_id = "workflow_default"
    settings = SimpleNamespace(timeout=ATTEMPT_SECONDS, base_url="https://service.invalid")

    def __init__(self, world: World, for_shutdown: bool = False) -> None:
        self.world = world
        self.is_hurried = for_shutdown

    def for_shutdown(self) -> Hook:
        return Hook(self.world, for_shutdown=True)

    def close(self) -> None:
        """Nothing is open."""

    def run_once(self, calls: Callable[..., Any], *args: Any) -> tuple[str, list[Any]]:
        """The listing of quarantined messages, which finds none."""
        return "", list(self._call("list", lambda process, sent_at: [], ""))

    def inbox_id(self, inbox: str) -> str:
        return str(self.get_inbox(inbox)["id"])

    def get_inbox(self, inbox: str) -> dict[str, Any]:
        def effect(process: Process, sent_at: float) -> dict[str, Any]:
            stored_inbox = self.world.store.inboxes.get(self._id_of(inbox))
            return {"id": stored_inbox.id, "status": stored_inbox.status}

        answer: dict[str, Any] = self._call("get", effect, inbox[:8])
        return answer

    def lease_messages(
        self, inbox: str, lease_limit: int = 10, lease_seconds: int = 300, *, patient: bool = True
    ) -> dict[str, Any]:
        world = self.world
        ledger, issuer = world.ledger, world.process
        ledger.lease_issued(issuer, lease_limit, lease_seconds)

        def effect(process: Process, sent_at: float) -> Any:
            answer = world.store.messages.lease(self._id_of(inbox), lease_seconds, lease_limit)
            if answer["lease_id"] is not None:
                if world.plan.omits_counts:
                    _forget_counts(answer)
                ledger.leased(process, inbox, answer, lease_seconds)
                if world.plan.memory is not None and len(answer["results"]) > world.plan.memory:
                    world.kill(process, "the size of its lease")
            return {**answer, "sent_at": sent_at}

        answer: dict[str, Any] = self._call("lease", effect, f"{lease_limit} for {lease_seconds} s", patient)
        if answer["lease_id"] is not None:
            ledger.lease_answered(issuer, answer["lease_id"], answer["sent_at"])
        return answer

    def acknowledge_messages(
        self, inbox: str, lease_id: str, message_ids: Sequence[str] | None = None
    ) -> dict[str, Any]:
        return self._end("acknowledge", inbox, lease_id, message_ids)

    def release_messages(
        self, inbox: str, lease_id: str, message_ids: Sequence[str] | None = None
    ) -> dict[str, Any]:
        return self._end("release", inbox, lease_id, message_ids)

    def _end(self, operation: str, inbox: str, lease_id: str, ids: Sequence[str] | None) -> dict[str, Any]:
        world = self.world
        ledger, issuer = world.ledger, world.process
        end = getattr(world.store.messages, operation)
        ledger.end_issued(issuer, operation, lease_id, ids)

        def effect(process: Process, sent_at: float) -> Any:
            answer = end(self._id_of(inbox), lease_id, ids)
            if operation == "acknowledge":
                ledger.acknowledged(
                    process, inbox, lease_id, [message["id"] for message in answer["results"]]
                )
            return answer

        try:
            answer: dict[str, Any] = self._call(operation, effect, f"{lease_id} {list(ids or ['all'])}")
        except LeaseExpiredError:
            ledger.end_answered(issuer, operation, lease_id, ids, None)
            raise
        except WorkflowError as error:
            ledger.end_answered(issuer, operation, lease_id, ids, error)
            raise
        ledger.end_answered(issuer, operation, lease_id, ids, None)
        return answer

    def _id_of(self, inbox: str) -> str:
        return self.world.inbox_ids.get(inbox, inbox)

    def _call(
        self, operation: str, effect: Callable[[Process, float], Any], details: str, patient: bool = True
    ) -> dict[str, Any] | Any:
        """One call: it takes time, and may fail before or after its effect."""
        world = self.world
        process, fault = world.process, world.draw_service_fault()
        if fault == "waits" and patient and not self.is_hurried:
            self._wait_at_rate_gate(operation, process)
        sent_at = world.scheduler.now
        world.pause(self._seconds())
        if world.away:
            fault = "refused" if "service" in world.away else "503" if operation in world.away else fault
        if fault in NO_EFFECT:
            self._harm(operation, fault)
            process.knowledge.source_in_trouble |= fault in ("403", "404")
            world.note(process, f"{operation} {details}", fault)
            raise NO_EFFECT[fault](operation)
        try:
            result = effect(process, sent_at)
        except ServiceError as error:
            world.note(process, f"{operation} {details}", error.code)
            raise client_error(operation, error) from None
        if fault == "slow" and not self.is_hurried:
            seconds = world.random.uniform(5.0, ATTEMPT_SECONDS - 6.0)
            process.harm(f"{operation}: slow")
            process.delayed_until = world.scheduler.now + seconds
            world.pause(seconds)
        elif (fault and fault != "waits") or world.random.random() < 0.3:
            world.pause(self._seconds())
        if fault in AFTER_EFFECT:
            self._harm(operation, fault)
            world.note(process, f"{operation} {details}", f"{fault} ({shortened(result)})")
            raise AFTER_EFFECT[fault](operation)
        if world.lines is not None:
            world.note(process, f"{operation} {details}", shortened(result))
        return result

    def _harm(self, operation: str, fault: str) -> None:
        # A failed acknowledgement delays no run.
        if operation != "acknowledge":
            self.world.process.harm(f"{operation}: {fault}")

    def _wait_at_rate_gate(self, operation: str, process: Process) -> None:
        """Wait before the request is sent; a lease that waited is then as long as any other."""
        seconds = self.world.random.uniform(10.0, MAX_WAIT_SECONDS)
        if operation != "lease":
            process.harm(f"{operation}: waits")
        process.delayed_until = self.world.scheduler.now + seconds
        self.world.pause(seconds)

    def _seconds(self) -> float:
        seconds = self.world.latency()
        return min(seconds, HURRIED_SECONDS / 2) if self.is_hurried else seconds


def _forget_counts(answer: dict[str, Any]) -> None:
    for message in answer["results"]:
        message["message_attributes"] = {**message["message_attributes"], "lease_count": None}


def client_error(operation: str, error: ServiceError) -> WorkflowError:
    """The exception of the client for an answer of the rules."""
    if error.code == "lease_expired":
        return LeaseExpiredError(operation, status=400, code=error.code)
    if error.code == "paused":
        paused = InboxPausedError(operation, status=409)
        paused.paused_reason = "user"
        return paused
    if error.status == 404:
        return NotFoundError(operation, status=404)
    return InvalidRequestError(f"{operation}: {error}", status=error.status)


def shortened(result: Any) -> Any:
    """A result as the history shows it: ids, and no payloads."""
    if not isinstance(result, dict):
        return result
    if "results" in result:
        ids = [
            f"{message['id']}#{message['message_attributes']['lease_count']}" for message in result["results"]
        ]
        return f"{result.get('lease_id') or ''} {ids}"
    return result.get("status")
