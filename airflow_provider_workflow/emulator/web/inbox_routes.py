"""The trigger inbox on the wire (specification 4.5, service facts 4)."""

from __future__ import annotations

from urllib.parse import urlencode

from airflow_provider_workflow.emulator import listing, validate
from airflow_provider_workflow.emulator.errors import invalid_parameter
from airflow_provider_workflow.emulator.settings import INBOX_STATES
from airflow_provider_workflow.emulator.tokens import EVENTS, INBOX
from airflow_provider_workflow.emulator.views import inbox_view
from airflow_provider_workflow.emulator.web.context import Emulator, Handler, Operation
from airflow_provider_workflow.emulator.web.stream import EventStream
from airflow_provider_workflow.emulator.web.wire import Answer, Request

PREFIXES = ("/trigger-inbox/v1", "/trigger-inbox/api/v1")
MAX_PAGE = 1000


def admitted(handler: Handler) -> Handler:
    """Check the token first (specification 5.4)."""

    def inside(emulator: Emulator, request: Request) -> Answer:
        emulator.store.tokens.admit(request.header(b"authorization"), INBOX)
        return handler(emulator, request)

    return inside


def lease(emulator: Emulator, request: Request) -> Answer:
    body = request.json()
    seconds = validate.whole_number(body, "lease_seconds", 300, 1, 3600)
    limit = validate.whole_number(body, "lease_limit", 10, 1, 100)
    answer = emulator.store.leases.lease(request.params["inbox_id"], seconds, limit)
    return Answer.of(201 if answer["lease_id"] else 200, answer)


def acknowledge(emulator: Emulator, request: Request) -> Answer:
    body = request.json()
    lease_id = validate.required_text(body, "lease_id")
    ids = validate.optional_ids(body, "message_ids")
    answer = emulator.store.leases.acknowledge(request.params["inbox_id"], lease_id, ids)
    return Answer.of(201 if answer["acked_id"] else 200, answer)


def release(emulator: Emulator, request: Request) -> Answer:
    body = request.json()
    lease_id = validate.required_text(body, "lease_id")
    ids = validate.optional_ids(body, "message_ids")
    answer = emulator.store.leases.release(request.params["inbox_id"], lease_id, ids)
    return Answer.of(201 if answer["released_id"] else 200, answer)


def list_messages(emulator: Emulator, request: Request) -> Answer:
    size = emulator.store.settings.page_size
    limit = validate.parameter_number(request.query, "limit", size, 1, MAX_PAGE)
    page = listing.messages(emulator.store, request.params["inbox_id"], limit, request.query.get("cursor"))
    extra = {"limit": str(limit)} if "limit" in request.query else {}
    links = {
        name: _link(request, {**extra, "cursor": cursor}) if cursor else None
        for name, cursor in (("next", page.next), ("previous", page.previous))
    }
    return Answer.of(200, {**links, "results": page.results})


def get_inbox(emulator: Emulator, request: Request) -> Answer:
    return Answer.of(200, inbox_view(emulator.store.inboxes.get(request.params["inbox_id"])))


def list_inboxes(emulator: Emulator, request: Request) -> Answer:
    query = request.query
    size = emulator.store.settings.page_size
    limit = validate.parameter_number(query, "limit", size, 1, MAX_PAGE)
    offset = validate.parameter_number(query, "offset", 0, 0, None)
    status = query.get("status")
    if status is not None and status not in INBOX_STATES:
        raise invalid_parameter("status", f"must be one of {', '.join(INBOX_STATES)}.")
    count, found = emulator.store.inboxes.page(limit, offset, status, query.get("name", query.get("key")))
    kept: dict[str, str] = {name: query[name] for name in ("status", "name", "key") if name in query}

    def at(place: int) -> str:
        return _link(request, {**kept, "limit": str(limit), "offset": str(place)})

    following = at(offset + limit) if offset + limit < count else None
    previous = at(max(0, offset - limit)) if offset > 0 else None
    results = [inbox_view(each) for each in found]
    return Answer.of(200, {"count": count, "next": following, "previous": previous, "results": results})


def create_inbox(emulator: Emulator, request: Request) -> Answer:
    body = request.json()
    name = validate.inbox_name(body, required=False)
    inbox = emulator.store.inboxes.create(name, validate.subscription(body), validate.notification_url(body))
    return Answer.of(201, inbox_view(inbox))


def ensure_inbox(emulator: Emulator, request: Request) -> Answer:
    body = request.json()
    name = str(validate.inbox_name(body, required=True))
    subscription, url = validate.subscription(body), validate.notification_url(body)
    inbox, created = emulator.store.inboxes.ensure(name, subscription, url)
    return Answer.of(201 if created else 200, inbox_view(inbox))


def update_inbox(emulator: Emulator, request: Request) -> Answer:
    inbox_id, body = request.params["inbox_id"], request.json()
    inbox = emulator.store.inboxes.get(inbox_id)
    if "notification_url" in body:
        inbox = emulator.store.inboxes.update(inbox_id, validate.notification_url(body))
    return Answer.of(200, inbox_view(inbox))


def delete_inbox(emulator: Emulator, request: Request) -> Answer:
    return Answer.of(202, inbox_view(emulator.store.inboxes.delete(request.params["inbox_id"])))


def pause_inbox(emulator: Emulator, request: Request) -> Answer:
    return Answer.of(200, inbox_view(emulator.store.inboxes.pause(request.params["inbox_id"])))


def resume_inbox(emulator: Emulator, request: Request) -> Answer:
    inbox = emulator.store.inboxes.resume(request.params["inbox_id"])
    return Answer.of(202 if inbox.status == "initializing" else 200, inbox_view(inbox))


def events(emulator: Emulator, request: Request) -> Answer:
    token = emulator.store.tokens.admit(request.header(b"authorization"), EVENTS)
    inbox_id = emulator.store.inboxes.get(request.params["inbox_id"]).id
    stream = EventStream(emulator.streams, emulator.store, inbox_id, token)
    headers = {"Cache-Control": "no-cache"}
    return Answer(200, content_type="text/event-stream", headers=headers, stream=stream)


def _link(request: Request, query: dict[str, str]) -> str:
    return f"{request.base_url}{request.path}?{urlencode(query)}"


# The calls of a busy consumer come first: routes are tried in order.
_TABLE: tuple[tuple[str, str, str, Handler], ...] = (
    ("lease", "POST", "/inboxes/{inbox_id}/messages/lease", lease),
    ("ack", "POST", "/inboxes/{inbox_id}/messages/ack", acknowledge),
    ("release", "POST", "/inboxes/{inbox_id}/messages/release", release),
    ("list_messages", "GET", "/inboxes/{inbox_id}/messages", list_messages),
    ("get_inbox", "GET", "/inboxes/{inbox_id}", get_inbox),
    ("update_inbox", "PATCH", "/inboxes/{inbox_id}", update_inbox),
    ("delete_inbox", "DELETE", "/inboxes/{inbox_id}", delete_inbox),
    ("list_inboxes", "GET", "/inboxes", list_inboxes),
    ("create_inbox", "POST", "/inboxes", create_inbox),
    ("ensure_inbox", "PUT", "/inboxes", ensure_inbox),
    ("pause_inbox", "POST", "/inboxes/{inbox_id}/pause", pause_inbox),
    ("resume_inbox", "POST", "/inboxes/{inbox_id}/resume", resume_inbox),
)

OPERATIONS = tuple(
    Operation(name, method, prefix + path, "inbox", handler)
    for prefix in PREFIXES
    for name, method, path, handler in (
        *((name, method, path, admitted(handler)) for name, method, path, handler in _TABLE),
        ("events", "GET", "/inboxes/{inbox_id}/events", events),
    )
)
