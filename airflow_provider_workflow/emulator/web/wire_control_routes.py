"""Control of the wire: faults, held requests, open streams, what was asked (``/_emulator/...``)."""

from __future__ import annotations

from dataclasses import asdict

from airflow_provider_workflow.emulator import validate
from airflow_provider_workflow.emulator.web.context import Emulator, Operation
from airflow_provider_workflow.emulator.web.control_routes import PREFIX
from airflow_provider_workflow.emulator.web.wire import Answer, Request


def add_fault(emulator: Emulator, request: Request) -> Answer:
    """The fields of :class:`airflow_provider_workflow.emulator.faults.Fault`: make requests go wrong."""
    return Answer.of(201, asdict(emulator.faults.add(**request.json())))


def list_faults(emulator: Emulator, _: Request) -> Answer:
    """Show the faults in force."""
    return Answer.of(200, {"faults": emulator.faults.listing()})


def clear_faults(emulator: Emulator, request: Request) -> Answer:
    """``{id?}``: lift one fault, or all."""
    emulator.faults.clear(request.json().get("id"))
    return Answer.of(200, {})


def list_holds(emulator: Emulator, _: Request) -> Answer:
    """Show the requests that are held."""
    return Answer.of(200, {"held": emulator.holds.listing()})


def release_holds(emulator: Emulator, request: Request) -> Answer:
    """``{id?, drop?}``: let one held request go, or all; ``drop`` cuts its connection instead."""
    body = request.json()
    released = emulator.holds.release(body.get("id"), drop=bool(body.get("drop")))
    return Answer.of(200, {"released": released})


def close_streams(emulator: Emulator, request: Request) -> Answer:
    """``{inbox?}``: close the event streams of an inbox, or all."""
    reference = request.json().get("inbox")
    emulator.streams.close(emulator.store.inboxes.find(reference).id if reference else None)
    return Answer.of(200, {})


def list_streams(emulator: Emulator, _: Request) -> Answer:
    """Count the open event streams, by inbox."""
    open_for = [stream.inbox_id for stream in emulator.streams.open]
    return Answer.of(200, {"open": {inbox_id: open_for.count(inbox_id) for inbox_id in open_for}})


def list_requests(emulator: Emulator, request: Request) -> Answer:
    """Show the latest requests; ``?operation=`` those of one name, ``?limit=`` so many (default 100)."""
    query = request.query
    limit = validate.parameter_number(query, "limit", 100, 0, None)
    wanted = query.get("operation")
    found = [each for each in list(emulator.log.recent) if wanted in (None, each.operation)]
    shown = [each.view() for each in found[len(found) - min(limit, len(found)) :]]
    return Answer.of(200, {"counts": dict(emulator.log.counts), "requests": shown})


def list_webhooks(emulator: Emulator, _: Request) -> Answer:
    """Show what became of the latest notifications."""
    return Answer.of(200, {"sent": list(emulator.webhooks.sent)})


OPERATIONS = tuple(
    Operation("control", method, PREFIX + path, "control", handler)
    for method, path, handler in (
        ("POST", "/faults", add_fault),
        ("GET", "/faults", list_faults),
        ("POST", "/faults/clear", clear_faults),
        ("GET", "/holds", list_holds),
        ("POST", "/holds/release", release_holds),
        ("POST", "/streams/close", close_streams),
        ("GET", "/streams", list_streams),
        ("GET", "/requests", list_requests),
        ("GET", "/webhooks", list_webhooks),
    )
)
