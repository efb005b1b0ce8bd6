"""A workbench for tests: an inbox of the emulator, and all that a task needs to work on its messages."""

from __future__ import annotations

import json
from typing import Any

from airflow_provider_workflow.dispatch.dead_letters import DeadLetterRules
from airflow_provider_workflow.dispatch.delivery import Delivery
from airflow_provider_workflow.dispatch.dispatcher import Dispatcher
from airflow_provider_workflow.dispatch.lease import HeldLease, lease_once
from airflow_provider_workflow.dispatch.receiving import Receiver
from airflow_provider_workflow.dispatch.routing import Routes
from airflow_provider_workflow.dispatch.runs import TaskRuns, run_id_of
from airflow_provider_workflow.emulator.server import EmulatorServer
from airflow_provider_workflow.hooks.workflow import WorkflowHook
from airflow_provider_workflow.limits import Limits
from tests.unit.fakes import StateStore, Supervisor, TaskInstance

INBOX = "orders"


class TaskTimeout(BaseException):
    """Stands for what ``execution_timeout`` raises in a task. Airflow's own is no ``Exception`` either."""


class Workbench:
    """The inbox ``orders`` of an emulator, with a fake supervisor that starts DAG runs."""

    def __init__(self, service: EmulatorServer, supervisor: Supervisor) -> None:
        self.service = service
        self.supervisor = supervisor
        self.ti = TaskInstance(supervisor=supervisor)
        self.store = StateStore()
        self.hook = WorkflowHook()
        self.inbox_id = service.open_inbox(INBOX)
        self.dead_letter_rules: DeadLetterRules | None = None

    def put(self, *ids: str, payload: Any = None, **attributes: Any) -> None:
        """Let messages with these ids arrive. Each has a payload of its own, unless ``payload`` is given."""
        payloads = [{"n": id_} if payload is None else payload for id_ in ids]
        self.service.put(INBOX, *payloads, ids=list(ids), attributes=attributes or None)

    def dispatcher(
        self,
        targets: Any = "handle",
        match: str | None = None,
        once_per: str | None = None,
        counts: Any = None,
        attempt: int = 1,
        **limits: Any,
    ) -> Dispatcher:
        more = {} if counts is None else {"counts": counts}
        return Dispatcher(
            self.hook,
            INBOX,
            Routes(targets, match, once_per),
            TaskRuns(self.ti),
            Limits(**limits),
            attempt=attempt,
            dead_letter_rules=self.dead_letter_rules,
            **more,
        )

    def ready_dispatcher(self, lease_limit: int = 2, **limits: Any) -> Dispatcher:
        """
        A dispatcher that no longer probes: it has started a run of its target, and has worked on a lease of
        ``lease_limit`` messages.
        """
        dispatcher = self.dispatcher(lease_limit=lease_limit, **limits)
        dispatcher.started.add("handle")
        dispatcher.size.add_lease(1, lease_limit, is_explained=True)
        return dispatcher

    def run_id(self, message_id: str) -> str:
        return run_id_of(message_id, self.inbox_id)

    def start_before(self, message_id: str, dag_id: str = "handle", user: str | None = None) -> None:
        """Store the run of a message as if it had been started before; with ``user``, by that user."""
        key = dag_id, self.run_id(message_id)
        source = {"connection_id": self.hook.workflow_conn_id, "inbox_id": self.inbox_id}
        self.supervisor.runs[key] = {**source, "message": {"id": message_id}}
        if user is not None:
            self.supervisor.users[key] = user

    def allow_dead_letters(self, after: int = 3, unmatched: str = "lease") -> None:
        """Let dispatchers start runs of the dead-letter DAG ``dead`` for rejected messages."""
        self.supervisor.dags.add("dead")
        self.dead_letter_rules = DeadLetterRules("dead", after, unmatched)

    @property
    def dead_letters(self) -> dict[str, Any]:
        return {conf["message_id"]: conf for (dag, _), conf in self.supervisor.runs.items() if dag == "dead"}

    @property
    def context(self) -> dict[str, Any]:
        return {"ti": self.ti, "task_state_store": self.store}

    def lease(self, count: int = 100, seconds: int = 300) -> HeldLease:
        lease = lease_once(self.hook, self.hook.get_inbox(INBOX)["id"], count, seconds)
        assert lease is not None
        return lease

    @property
    def states(self) -> dict[str, str]:
        """The status of each message that the inbox still has."""
        return {message["id"]: message["status"] for message in self.hook.list_messages(INBOX)}

    @property
    def lease_sizes(self) -> list[int]:
        """The ``lease_limit`` of each lease request, in their order."""
        return [body["lease_limit"] for body in self.bodies_of("lease")]

    def bodies_of(self, operation: str) -> list[dict[str, Any]]:
        """The bodies of all requests of an operation (``lease``, ``ack``, ``release``)."""
        return [
            json.loads(request.body) for request in self.service.requests if request.operation == operation
        ]


def with_counts(lease: HeldLease, counts: dict[str, Any]) -> HeldLease:
    """Give the messages of a lease these delivery counts, and this order; None for no count."""
    before = {delivery.id: delivery.message for delivery in lease.deliveries}
    lease.deliveries[:] = [
        Delivery.of(lease.inbox_id, {**before[message_id], "message_attributes": {"lease_count": count}})
        for message_id, count in counts.items()
    ]
    return lease


class Receipt:
    """A receiver of the inbox, and the store of its task."""

    def __init__(self, bench: Workbench) -> None:
        self.bench = bench
        self.store = bench.store

    def __call__(self, match: str | None = None) -> Receiver:
        return Receiver(self.bench.hook, INBOX, Routes(None, match), self.bench.context)
