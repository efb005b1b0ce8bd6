"""Control of the state: what the real service does by itself, done on demand (``/_emulator/...``)."""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import Any

from airflow_provider_workflow.emulator import listing, validate
from airflow_provider_workflow.emulator.errors import invalid_field
from airflow_provider_workflow.emulator.records import Inbox
from airflow_provider_workflow.emulator.settings import Settings
from airflow_provider_workflow.emulator.views import inbox_view, iso
from airflow_provider_workflow.emulator.web.context import Emulator, Operation
from airflow_provider_workflow.emulator.web.wire import Answer, Request

PREFIX = "/_emulator"


def put_messages(emulator: Emulator, request: Request) -> Answer:
    """``{inbox, payloads, ids?, attributes?, create?, announce?}``: let messages arrive."""
    body = request.json()
    payloads = body.get("payloads")
    if not isinstance(payloads, list):
        raise invalid_field("payloads", "must be a list, one entry per message.")
    with emulator.store.core:
        if body.get("create"):
            emulator.store.inboxes.open(validate.required_text(body, "inbox"))
        put = emulator.store.messages.put(
            _inbox(emulator, body).id,
            payloads,
            ids=body.get("ids"),
            attributes=body.get("attributes"),
            announce=body.get("announce", True),
        )
    note = f"Dropped: an inbox that is {put.status} takes no messages." if put.dropped else None
    return Answer.of(200, {"ids": put.ids, "dropped": put.dropped, "note": note})


def set_attributes(emulator: Emulator, request: Request) -> Answer:
    """``{inbox, message_id, attributes}``: set what the service knows of a message."""
    body = request.json()
    inbox, message_id = _inbox(emulator, body), validate.required_text(body, "message_id")
    emulator.store.messages.set_attributes(inbox.id, message_id, body.get("attributes") or {})
    return Answer.of(200, {})


def expire_leases(emulator: Emulator, request: Request) -> Answer:
    """``{inbox?, lease_id?}``: end one lease, those of an inbox, or all."""
    body = request.json()
    inbox_id = _inbox(emulator, body).id if "inbox" in body else None
    return Answer.of(200, {"expired": emulator.store.leases.expire(inbox_id, body.get("lease_id"))})


def open_inbox(emulator: Emulator, request: Request) -> Answer:
    """``{name, subscription?}``: create an active inbox, unless it is there."""
    body = request.json()
    subscription = validate.subscription(body) if "subscription" in body else None
    inbox = emulator.store.inboxes.open(validate.required_text(body, "name"), subscription)
    return Answer.of(200, inbox_view(inbox))


def force_state(emulator: Emulator, request: Request) -> Answer:
    """``{inbox, status, paused_reason?}``: put an inbox into a state."""
    body = request.json()
    status = validate.required_text(body, "status")
    inbox = emulator.store.inboxes.force(_inbox(emulator, body).id, status, body.get("paused_reason"))
    return Answer.of(200, inbox_view(inbox))


def fail_initialisation(emulator: Emulator, request: Request) -> Answer:
    """``{name?, times?}``: make the next initialisations fail, of any inbox or of that name."""
    body = request.json()
    emulator.store.inboxes.fail_next(body.get("name"), validate.whole_number(body, "times", 1, 1, 10**6))
    return Answer.of(200, {})


def summarise(emulator: Emulator, request: Request) -> Answer:
    """Tell everything about an inbox; ``?messages=0`` for the counts alone."""
    inbox = emulator.store.inboxes.find(request.params["inbox"])
    detailed = request.query.get("messages") not in ("0", "false")
    return Answer.of(200, listing.summary(emulator.store, inbox.id, with_messages=detailed))


def issue_token(emulator: Emulator, request: Request) -> Answer:
    """``{scope?, grant?}``: issue an access token without the token endpoint."""
    body = request.json()
    token = emulator.store.tokens.issue(
        body.get("scope", "external"), body.get("grant", "client_credentials")
    )
    return Answer.of(200, {"access_token": token.value, "expires_at": token.expires_at})


def expire_tokens(emulator: Emulator, request: Request) -> Answer:
    """``{token?}``: end one access token, or all."""
    return Answer.of(200, {"expired": emulator.store.tokens.expire(request.json().get("token"))})


def show_clock(emulator: Emulator, _: Request) -> Answer:
    """Tell the time."""
    now = emulator.store.clock.now()
    return Answer.of(200, {"now": now, "iso": iso(now)})


def advance_clock(emulator: Emulator, request: Request) -> Answer:
    """``{seconds}``: move the clock."""
    seconds = request.json().get("seconds")
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)):
        raise invalid_field("seconds", "must be a number.")
    emulator.store.clock.advance(seconds)
    return show_clock(emulator, request)


def set_limit(emulator: Emulator, request: Request) -> Answer:
    """``{family, limit, window_seconds?}``: limit a family of calls; a ``limit`` of null lifts it."""
    body = request.json()
    limit = None if body.get("limit") is None else validate.whole_number(body, "limit", 0, 0, 10**9)
    family = validate.required_text(body, "family")
    emulator.store.limits.set(family, limit, body.get("window_seconds", 3600))
    return Answer.of(200, {})


def settings(emulator: Emulator, request: Request) -> Answer:
    """Show the knobs; a body turns those that it names."""
    changes: dict[str, Any] = request.json()
    unknown = set(changes) - {each.name for each in fields(Settings)}
    if unknown:
        raise invalid_field(sorted(unknown)[0], "there is no such setting.")
    if "redirect_uris" in changes:
        changes["redirect_uris"] = tuple(changes["redirect_uris"])
    return Answer.of(200, asdict(emulator.store.configure(**changes)))


def reset(emulator: Emulator, _: Request) -> Answer:
    """Begin anew."""
    emulator.reset()
    return Answer.of(200, {})


def _inbox(emulator: Emulator, body: dict[str, Any]) -> Inbox:
    return emulator.store.inboxes.find(validate.required_text(body, "inbox"))


OPERATIONS = tuple(
    Operation("control", method, PREFIX + path, "control", handler)
    for method, path, handler in (
        ("POST", "/messages", put_messages),
        ("POST", "/messages/attributes", set_attributes),
        ("POST", "/leases/expire", expire_leases),
        ("POST", "/inboxes", open_inbox),
        ("POST", "/inboxes/state", force_state),
        ("POST", "/inboxes/fail-initialisation", fail_initialisation),
        ("GET", "/inboxes/{inbox}", summarise),
        ("POST", "/tokens", issue_token),
        ("POST", "/tokens/expire", expire_tokens),
        ("GET", "/clock", show_clock),
        ("POST", "/clock/advance", advance_clock),
        ("POST", "/limits", set_limit),
        ("GET", "/settings", settings),
        ("POST", "/settings", settings),
        ("POST", "/reset", reset),
    )
)
