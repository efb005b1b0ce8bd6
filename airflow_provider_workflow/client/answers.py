"""From an answer of the service, or the lack of one, to the value of a call or to an exception."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import suppress
from http import HTTPStatus
from typing import Any, cast
from urllib.parse import urlsplit

from airflow_provider_workflow.client import tolerant_json
from airflow_provider_workflow.client.arguments import segment
from airflow_provider_workflow.client.call import Call, Family
from airflow_provider_workflow.client.errors import (
    AuthenticationError,
    ConflictError,
    GuessRejectedError,
    InboxPausedError,
    InvalidRequestError,
    LeaseExpiredError,
    NotFoundError,
    RateLimitError,
    ServerError,
    TransportError,
    WorkflowAPIError,
    WorkflowError,
)
from airflow_provider_workflow.client.http_messages import Answer, Request
from airflow_provider_workflow.text import escaped, host_of, one_line
from airflow_provider_workflow.types import Template

log = logging.getLogger(__name__)


def no_value(answer: Answer) -> None:
    """
    No value: only the status of the answer matters.

    :raises TransportError: there is a body that is not JSON, such as the page of a proxy.
    """
    if answer.body:
        answer.json()


def json_object(answer: Answer) -> Any:
    """
    An object.

    :raises TransportError: the body is not an object.
    """
    body = answer.json()
    if not isinstance(body, dict):
        raise _misshapen(answer, "an object")
    return body


def token(answer: Answer) -> Any:
    """
    The tokens of an answer of the token endpoint.

    :raises TransportError: the body is not an object.
    :raises AuthenticationError: it has no access token that can be sent.
    """
    body = json_object(answer)
    check_access_token(body)
    return body


def check_access_token(body: Mapping[str, Any]) -> None:
    """:raises AuthenticationError: there is no access token, or it cannot be sent in a header."""
    value = body.get("access_token")
    if not (isinstance(value, str) and value and value.isascii() and value.isprintable()):
        raise AuthenticationError("the token endpoint answered without a usable access_token", status=200)


def inbox(answer: Answer) -> Any:
    """
    An inbox: an object with its required fields, a ``status`` and an ``id`` that requests can have.

    :raises TransportError: the body is not an inbox.
    """
    body = json_object(answer)
    if not _is_inbox(body):
        raise _misshapen(answer, "an inbox with an id and a status")
    return _named(body)


def guess(answer: Answer) -> Any:
    """
    A suggested workflow with its required fields (docs/service.md 13.1).

    :raises TransportError: the body is not a suggested workflow.
    """
    body = json_object(answer)
    steps = body.get("steps")
    has_title = isinstance(body.get("title"), str)
    if not (has_title and _string(body.get("prefilled_url")) and _objects(steps)):
        raise _misshapen(answer, "a guess with title, steps and prefilled_url")
    for step in steps:
        alternatives = step.get("alternatives") or []
        raw = [step.get("step"), *(alternatives if isinstance(alternatives, list) else [None])]
        if not _objects(raw) or not all(_string(one.get(name)) for one in raw for name in ("app", "api")):
            raise _misshapen(answer, "a guess whose steps have app and api")
    return body


def receipt(answer: Answer) -> Any:
    """
    The response to an acknowledgement or a release.

    :raises TransportError: ``results`` is not a list of objects.
    """
    body = json_object(answer)
    if body.get("results") is not None and not _objects(body["results"]):
        raise _misshapen(answer, "an object with a list of results")
    return body


def page(answer: Answer) -> Any:
    """
    A page of a listing: an object with ``results``, a list of objects, and the URL ``next``.

    :raises TransportError: the body is not such a page.
    """
    body = json_object(answer)
    following = body.get("next")
    if not isinstance(body.get("results"), list):
        raise _misshapen(answer, "an object with a list of results")
    if not (following is None or isinstance(following, str)):
        raise _misshapen(answer, "a page of a listing")
    body["results"] = _entries(answer, body["results"], "a page of a listing")
    for entry in body["results"]:
        if not isinstance(entry.get("message_attributes"), dict):
            entry.pop("message_attributes", None)
    return body


def page_of_inboxes(answer: Answer) -> Any:
    """
    A page of inboxes, each with the fields that ``inbox`` requires; None in place of one that lacks them.

    :raises TransportError: the body is not such a page.
    """
    body = page(answer)
    results = body["results"] = [_named(entry) if _is_inbox(entry) else None for entry in body["results"]]
    if None in results:
        if not any(results):
            raise _misshapen(answer, "a page of inboxes with an id and a status")
        text = "%d of %d inboxes in the list of the service have no usable id or no status, and are left out"
        log.warning(text, results.count(None), len(results))
    return body


def _entries(answer: Answer, entries: list[Any], expected: str) -> list[dict[str, Any]]:
    """
    The entries of a list; an empty one in place of what is not an object, or has an id that cannot be a key.

    One defect must not make the whole list unreadable, and the next page's position follows from the number
    of entries.

    :raises TransportError: all entries have a defect, so this is another list.
    """
    sound = [isinstance(entry, dict) and not isinstance(entry.get("id"), (dict, list)) for entry in entries]
    if entries and not any(sound):
        raise _misshapen(answer, expected)
    return [entry if is_sound else {} for entry, is_sound in zip(entries, sound, strict=True)]


def _is_inbox(body: dict[str, Any]) -> bool:
    return _can_be_requested(body.get("id")) and _string(body.get("status")) is not None


def _can_be_requested(inbox_id: Any) -> bool:
    with suppress(ValueError):
        return bool(segment("id", inbox_id))
    return False


def _named(inbox: dict[str, Any]) -> dict[str, Any]:
    """
    The inbox with ``name``; newer servers may only send ``key`` (docs/service.md 2).

    Optional fields that are not strings become None.
    """
    if inbox.get("name") is None and inbox.get("key") is not None:
        inbox["name"] = inbox["key"]
    for name in ("name", "paused_reason", "notification_url"):
        if not isinstance(inbox.get(name, ""), str):
            inbox[name] = None
    return inbox


NOT_OF_SERVICE = ("payload_json", "payload_object", "payload_sha256", "payload_bytes")
"""Fields with which this provider says where the payload of a message is."""


def lease(answer: Answer) -> Any:
    """
    A lease.

    A defect of one message must not make the whole lease unreadable, until all are quarantined. What cannot
    be decoded, or is nested too deep, is replaced by its text, an entry that is not an object by an empty
    one, and attributes that are not objects by None.

    :raises TransportError: the body is not a lease.
    """
    body = _decoded_lease(answer)
    results = body.get("results") if isinstance(body, dict) else None
    if not isinstance(results, list):
        raise _misshapen(answer, "an object with a list of results")
    body["results"] = [entry if isinstance(entry, dict) else {} for entry in results]
    for attributes, holders in (("inbox_attributes", [body]), ("message_attributes", body["results"])):
        for holder in holders:
            if attributes in holder and not isinstance(holder[attributes], dict):
                holder[attributes] = None
    _named(body.get("inbox_attributes") or {})
    for message in body["results"]:
        for name in NOT_OF_SERVICE:
            message.pop(name, None)
    body["sent_at"] = answer.sent_at
    return body


def _decoded_lease(answer: Answer) -> Any:
    """
    The body of a lease, with a text in place of each value that Python or Airflow cannot work with.

    :raises TransportError: the body is not JSON.
    """
    with suppress(TransportError):
        body = answer.json()
        if not tolerant_json.is_deeper(body, tolerant_json.LEVELS + tolerant_json.MAX_PAYLOAD_LEVELS):
            return body
    try:
        return tolerant_json.decode_lease(answer.body)
    except ValueError:
        return answer.json()


def templates(answer: Answer) -> list[Template]:
    """
    A list of objects (docs/service.md 7).

    :raises TransportError: the body is not such a list.
    """
    body = answer.json()
    if not isinstance(body, list):
        raise _misshapen(answer, "a list of templates")
    return cast("list[Template]", _entries(answer, body, "a list of templates"))


def _objects(value: Any) -> bool:
    return isinstance(value, list) and {type(item) for item in value} <= {dict}


def _misshapen(answer: Answer, expected: str) -> TransportError:
    text = f"the answer with status {answer.status} has a body that is not {expected}"
    return TransportError(text, sent=True)


MAX_DETAIL_LENGTH = 500
MAX_PLACE = 100
"""Characters of the name of a field in an error."""
MAX_LEVELS = 100
"""Levels of the body of an error that are kept decoded."""
OF_ERRORS = ("error", "error_description", "error_uri", "errors", "detail")
"""Fields of an answer of the token endpoint that is an error."""
TRANSIENT = (408, 425)
"""Statuses below 500 after which the same request may succeed."""
_REQUESTS = {
    "app_token": "for an access token",
    "exchange_code": "for the tokens of a user",
    "refresh_user_token": "to renew the tokens of a user",
    "guess": "to guess a workflow",
    "list_templates": "for the workflow templates",
    "unenroll_promotion": "to end an enrollment",
    "list_inboxes": "for the list of inboxes",
    "create_inbox": "to create an inbox",
    "ensure_inbox": "to create an inbox",
    "get_inbox": "for an inbox",
    "update_inbox": "to change an inbox",
    "delete_inbox": "to delete an inbox",
    "pause_inbox": "to pause an inbox",
    "resume_inbox": "to resume an inbox",
    "list_messages": "for the list of messages",
    "lease_messages": "to lease messages",
    "acknowledge_messages": "to acknowledge messages",
    "release_messages": "to release messages",
    "events": "for the event stream",
}
"""By the name of the call, in words for users."""


def request_of(name: str) -> str:
    """What a call requests, as the beginning of a sentence."""
    return f"The request {_REQUESTS.get(name, name)}"


def failure(call: Call[Any], answer: Answer) -> WorkflowAPIError:
    """
    The exception for an answer that is not a 2xx (docs/service.md 11).

    Its class depends on the status, then on ``errors[0].code``. The body can be an ``errors`` envelope, only
    ``{detail}``, a token endpoint's ``{error, error_description}``, an HTML page, or empty.

    :param answer: with masked secrets.
    """
    decoded = _decoded(answer)
    content = decoded if isinstance(decoded, dict) else None
    body = content or {}
    first = _first_error(body)
    code, detail = _code_and_detail(body)
    if 300 <= answer.status < 400:
        host = _host(answer.headers.get("location", ""))
        detail = f"it redirects to {host}, which is not followed; configure the final URL"
    detail = detail or next((status.phrase for status in HTTPStatus if status == answer.status), "")
    kind = _kind(call, answer.status, code, content)
    explained = f"{request_of(call.name)} was answered with {answer.status}"
    error = kind(
        f"{explained}{_explained(code, detail)}{_place(first)}",
        status=answer.status,
        code=code,
        detail="" if content is None else detail,
        retry_after=answer.retry_after(),
        answer=_kept(answer, decoded),
        rate_limit=answer.rate_limit(),
    )
    if isinstance(error, InboxPausedError):
        error.paused_reason = str(body["inbox_attributes"].get("paused_reason") or "unknown")
    return error


def unusable(call: Call[Any], kind: type[Exception], text: str, answer: Answer) -> WorkflowError:
    """
    The exception for a 2xx that does not have what the call returns, with the reason that its body gives.

    Some services, and some token endpoints, answer an error with 200 (docs/service.md 9.1).

    :param kind: what ``call.read`` raised: ``AuthenticationError`` for an answer without an access token.
    :param text: of that exception.
    :param answer: with masked secrets.
    """
    decoded = _decoded(answer)
    body = decoded if isinstance(decoded, dict) else {}
    code, detail = _code_and_detail(body)
    explained = f"{text}{_explained(code, detail)}"
    if issubclass(kind, AuthenticationError):
        # Not the other fields, which may have a new token.
        safe_fields = {name: body[name] for name in OF_ERRORS if name in body} or None
        return AuthenticationError(
            explained, status=answer.status, code=code, detail=detail, answer=safe_fields
        )
    return TransportError(f"{call.name}: {explained}", sent=True)


def _decoded(answer: Answer) -> Any:
    """The JSON of a body; None without it."""
    with suppress(TransportError):
        return answer.json()
    return None


def _first_error(body: Mapping[str, Any]) -> Mapping[str, Any]:
    errors = body.get("errors")
    return errors[0] if isinstance(errors, list) and errors and isinstance(errors[0], dict) else {}


def _code_and_detail(body: Mapping[str, Any]) -> tuple[str | None, str]:
    """The code and the explanation that a body gives; None and "" if it has none."""
    first = _first_error(body)
    code = _string(first.get("code")) or _string(body.get("error"))
    messages = body.get("messages")
    messages = messages if isinstance(messages, list) else []
    details = [_string(message.get("detail")) for message in messages if isinstance(message, dict)]
    explanations = (
        " ".join(filter(None, details)),
        _string(first.get("detail")),
        _string(first.get("title")),
        _string(body.get("detail")),
        _string(body.get("error_description")),
    )
    detail = next(filter(None, explanations), "")
    return code and one_line(code), detail[:MAX_DETAIL_LENGTH]


def _explained(code: str | None, detail: str) -> str:
    """A code and an explanation as the end of a sentence: `` (code): detail``."""
    return (f" ({code})" if code else "") + (f": {one_line(detail)}" if detail else "")


def _kept(answer: Answer, decoded: Any) -> Any:
    """The body of an error: decoded, or its text if it is not JSON or too deep; None if it is empty."""
    if decoded is not None and not tolerant_json.is_deeper(decoded, MAX_LEVELS):
        return decoded
    return answer.body.decode(errors="replace") or None


def _place(first: Mapping[str, Any]) -> str:
    """The field that an error is about, as ``" (at /actions)"``; empty if it names none."""
    source = first.get("source")
    source = source if isinstance(source, dict) else {}
    names = (_string(source.get(field)) for field in ("pointer", "parameter", "header"))
    name = next(filter(None, names), None)
    return f" (at {escaped(name, MAX_PLACE)})" if name else ""


def _kind(
    call: Call[Any],
    status: int,
    code: str | None,
    content: dict[str, Any] | None,
) -> type[WorkflowAPIError]:
    if status == 429:
        return RateLimitError
    if status in TRANSIENT or status >= 500:
        return ServerError
    # A 404 of the token endpoint is not about an inbox.
    if status in (401, 403) or (call.family is Family.TOKEN and status >= 400):
        return AuthenticationError
    if status == 400 and code == "unauthenticated":
        return AuthenticationError
    if status == 400 and code == "lease_expired":
        return LeaseExpiredError
    if status == 400 and call.family is Family.GUESS and content is not None and "errors" not in content:
        return GuessRejectedError
    if status == 404:
        return NotFoundError
    if status == 409:
        is_of_lease = isinstance((content or {}).get("inbox_attributes"), dict)
        return InboxPausedError if is_of_lease else ConflictError
    return InvalidRequestError if status >= 400 else WorkflowAPIError


def _host(location: str) -> str:
    try:
        return escaped(urlsplit(location).hostname or "another path", 100)
    except ValueError:
        return "an invalid URL"


def _string(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


# What failed if nothing was sent: the beginning of an error message.
CONNECTION = "{host} cannot be reached"
PROXY = "{host} cannot be reached through the proxy of the environment"
TLS = "no secure connection to {host}"
CERTIFICATE = "the certificate of {host} does not verify"
NOT_HTTP = "its answer is incomplete, or is not valid HTTP"
"""The reason of an error for what the libraries reject, in different words."""


def no_answer(
    request: Request,
    stage: str,
    reason: str,
    *,
    sent: bool,
    timed_out: bool,
) -> TransportError:
    """
    The exception for a request without a complete answer; it names the host and no part of the request.

    :param stage: what failed, if nothing was sent.
    :param reason: from the library or the operating system, without the URL.
    :param sent: whether the service may have received the request.
    """
    host = host_of(request.url)
    if stage == CERTIFICATE:
        return TransportError(stage.format(host=host), sent=False, permanent=True)
    if timed_out:
        what = f"no complete answer from {host}" if sent else f"no connection to {host}"
        return TransportError(f"{what} within {round(request.timeout, 1):g} s", sent=sent, timed_out=True)
    what = f"the connection to {host} was lost" if sent else stage.format(host=host)
    return TransportError(f"{what}: {reason}", sent=sent)
