"""Each example DAG file: what is put and started by hand to see it work, and what is to be seen then."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from airflow_provider_workflow.airflow_internals import airflow_release


@dataclass(frozen=True)
class ExpectedText:
    """
    A text that a task prints or returns in a run that succeeds.

    :param text: with ``{id[0]}`` and ``{payload[0]}`` for what was put first, and so on.
    """

    dag_id: str
    task_id: str
    text: str


@dataclass(frozen=True)
class Example:
    """
    What an example needs, and what it shows.

    :param see: all that is to be seen; at least one text for each DAG of the file that does something.
    :param inbox: its inbox, which is opened before it; None where it has none, or makes it.
    :param put: payloads of the messages that come in.
    :param start: DAGs that are started by hand, one after the other, each when the last has succeeded.
    :param since: the first version of Airflow that it is for.
    """

    see: tuple[ExpectedText, ...]
    inbox: str | None = None
    put: tuple[Any, ...] = ()
    start: tuple[str, ...] = ()
    since: tuple[int, int] = (3, 2)

    @property
    def runs_here(self) -> bool:
        return airflow_release() >= self.since


EXAMPLES = {
    "guess_and_templates.py": Example(
        start=("suggest_workflows",),
        see=(
            ExpectedText("suggest_workflows", "guess", '"title": "When an order arrives in the shop'),
            ExpectedText("suggest_workflows", "templates", '"title": "Shop"'),
        ),
    ),
    "inbox_batches.py": Example(
        inbox="measurements",
        put=({"value": 1}, {"value": 2}),
        start=("store_measurements",),
        see=(
            ExpectedText("store_measurements", "store", "Measurement {id[0]}: {payload[0]}"),
            ExpectedText("store_measurements", "store", "Measurement {id[1]}: {payload[1]}"),
            ExpectedText("store_measurements", "store", '"batches": 2'),
        ),
    ),
    "inbox_dag.py": Example(
        inbox="signups",
        put=({"name": "Ada"}, {"name": "Grace"}),
        see=(
            ExpectedText("welcome", "welcome", "Welcome, Ada"),
            ExpectedText("welcome", "welcome", "Welcome, Grace"),
        ),
    ),
    "inbox_dead_letters.py": Example(
        inbox="payments",
        put=({"amount": 1}, {"total": 2}),
        see=(
            ExpectedText("handle_payment", "handle", "{payload[0]}"),
            ExpectedText("dead_payment", "store", "dead_payments/workflow__dead__{id[1]}__"),
            ExpectedText("dead_payment", "notify", "Dead letter {id[1]} (unmatched): no route takes it"),
            ExpectedText("dead_payment", "drop", "Replay it by hand once its DAG is corrected"),
        ),
    ),
    "inbox_events.py": Example(
        inbox="alerts",
        put=({"level": "error", "n": 1}, {"level": "error", "n": 2}),
        see=(
            ExpectedText("on_alerts", "handle", "Alert {id[0]}: {payload[0]}"),
            ExpectedText("on_alerts", "handle", "Alert {id[1]}: {payload[1]}"),
        ),
        since=(3, 3),
    ),
    "inbox_listener.py": Example(
        inbox="orders",
        put=({"n": 1}, {"n": 2}),
        see=(
            ExpectedText("handle_order", "handle", "Order {id[0]}: {payload[0]}"),
            ExpectedText("handle_order", "handle", "Order {id[1]}: {payload[1]}"),
        ),
    ),
    "inbox_messages.py": Example(
        inbox="readings",
        put=({"n": 1}, {"n": 2}),
        start=("collect_readings",),
        see=(
            ExpectedText("collect_readings", "work", "Reading {id[0]}: {payload[0]}"),
            ExpectedText("collect_readings", "work", "Reading {id[1]}: {payload[1]}"),
        ),
        since=(3, 3),
    ),
    "inbox_notice.py": Example(
        inbox="deliveries",
        put=({"n": 1}, {"n": 2}),
        see=(
            ExpectedText("handle_delivery", "handle", "Delivery {id[0]}: {payload[0]}"),
            ExpectedText("handle_delivery", "handle", "Delivery {id[1]}: {payload[1]}"),
        ),
    ),
    "inbox_routing.py": Example(
        inbox="events",
        put=({"type": "refund"}, {"type": "payment", "amount": "1000"}, {"type": "payment", "amount": 999}),
        see=(
            ExpectedText("on_refund", "handle", "{payload[0]}"),
            ExpectedText("on_large_payment", "handle", "{payload[1]}"),
            ExpectedText("on_event", "handle", "{payload[2]}"),
        ),
    ),
    "inbox_work_then_acknowledge.py": Example(
        inbox="invoices",
        put=({"n": 1}, {"n": 2}),
        start=("work_then_acknowledge",),
        see=(
            ExpectedText("work_then_acknowledge", "work", "Invoice {id[0]}: {payload[0]}"),
            ExpectedText("work_then_acknowledge", "work", "Invoice {id[1]}: {payload[1]}"),
            ExpectedText("work_then_acknowledge", "acknowledge", '"lease_ended": 0'),
        ),
    ),
    "manage_inboxes.py": Example(
        start=("set_up_tickets", "maintain_tickets"),
        see=(
            ExpectedText("set_up_tickets", "ensure", '"status": "active"'),
            ExpectedText("maintain_tickets", "maintain", "Inbox tickets is paused"),
            ExpectedText("maintain_tickets", "resume", '"status": "active"'),
        ),
    ),
}
