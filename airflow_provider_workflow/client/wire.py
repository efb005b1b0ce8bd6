"""
HTTP as data: a request that is ready to send, the answer to it, and the functions that check answers.

Both senders use the same two classes, so the senders do not implement the protocol.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Any, cast
from urllib.parse import urlsplit

from airflow_provider_workflow import clock
from airflow_provider_workflow.client import lenient_json
from airflow_provider_workflow.client.errors import RateLimit, TransportError
from airflow_provider_workflow.client.lenient_json import whole
from airflow_provider_workflow.types import Template

EPOCH_RESET_FLOOR = 1e9
"""A reset value of at least this is in epoch seconds, a smaller one is a delta (docs/service.md 15)."""
LARGEST_NUMBER = 1e12
"""Limit for the absolute value of a number in a header."""
BELIEVED_WAIT_SECONDS = 900.0
"""
Maximum wait at the service's request; then a call is sent again. The service may request more by mistake:
a date in 2099, milliseconds instead of seconds, an epoch.
"""
BUSY = (429, 503)
"""Statuses with which ``Retry-After`` is obeyed (docs/service.md 15)."""
LARGE_BODY = 256_000
"""Bytes. A larger body is decoded in a thread of an event loop, which takes 5 ms or more."""
LONGEST_ERROR = 64_000
"""Bytes of an answer other than a 2xx; the rest is not read."""
_DECIMAL = re.compile(r"[+-]?[0-9]+(\.[0-9]*)?")


@dataclass(frozen=True)
class Request:
    """
    A complete request. ``repr`` omits query, headers, body and proxy, which contain secrets.

    :param method: HTTP method.
    :param url: absolute URL, without the query.
    :param query: query parameters.
    :param headers: all headers except those that the HTTP library adds.
    :param body: the encoded body, or None.
    :param timeout: seconds for the connection, each wait for data, and the body.
    :param proxy: URL of the proxy, or None.
    :param limit: maximum number of bytes of the answer's body.
    """

    method: str
    url: str
    query: Mapping[str, str] = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    body: bytes | None = field(repr=False)
    timeout: float
    proxy: str | None = field(repr=False)
    limit: int = 16_000_000


@dataclass(frozen=True)
class Answer:
    """
    The response to a request.

    :param status: HTTP status code.
    :param headers: the headers; can be looked up by lower-case names.
    :param body: the body.
    :param is_cut: whether the body is longer than the limit, and only its beginning was read.
    :param sent_at: when the request was sent, in epoch seconds by the local clock.
    """

    status: int
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    is_cut: bool = False
    sent_at: float = 0.0

    @property
    def is_success(self) -> bool:
        """Whether the status is a 2xx; ``failures.failure`` converts any other into an exception."""
        return 200 <= self.status < 300

    def json(self) -> Any:
        """
        Decode the body.

        :raises TransportError: the body is not JSON (cut short, an HTML page, wrong encoding).
        """
        try:
            return _decoded(self.body)
        except (ValueError, RecursionError):
            pass
        # Raised here, it has no context: the decoder's exceptions contain the body, which may have a token.
        kind = plain(self.headers.get("content-type", "no content type"), 100)
        raise TransportError(
            f"the answer with status {self.status} has a body that is not JSON"
            f" ({kind}, {len(self.body)} bytes)",
            sent=True,
        )

    def now(self) -> float:
        """
        The time of the service, in epoch seconds; the local time if it sends no ``Date``.

        Dates in headers are compared with it, so that an inaccurate local clock has no effect.
        """
        return _http_date(self.headers.get("date")) or clock.now()

    def retry_after(self) -> float | None:
        """Seconds to wait before the next call: the requested wait, at most :data:`BELIEVED_WAIT_SECONDS`."""
        seconds = self.requested_wait()
        return None if seconds is None else min(seconds, BELIEVED_WAIT_SECONDS)

    def requested_wait(self) -> float | None:
        """
        Seconds for which the service requests no calls: ``Retry-After`` of a 429 or 503, in seconds or as
        an HTTP date, else the reset header of a window without remaining requests (docs/service.md 15).
        """
        value = self.headers.get("retry-after") if self.status in BUSY else None
        seconds = _number(value)
        if seconds is None and (date := _http_date(value)) is not None:
            seconds = date - self.now()
        if seconds is None and "x-ratelimit-remaining" in self.headers:
            limit = self.rate_limit()
            if limit is not None and limit.remaining == 0:
                seconds = limit.reset
        return None if seconds is None else max(0.0, seconds)

    def rate_limit(self) -> RateLimit | None:
        """The ``X-RateLimit-*`` headers, or None if there are none (docs/service.md 15)."""
        limit, remaining, reset = (
            _number(self.headers.get(f"x-ratelimit-{name}")) for name in ("limit", "remaining", "reset")
        )
        if limit is None and remaining is None and reset is None:
            return None
        if reset is not None and reset >= EPOCH_RESET_FLOOR:
            reset = max(0.0, reset - self.now())
        return RateLimit(
            limit=None if limit is None else int(limit),
            remaining=None if remaining is None else int(remaining),
            reset=reset,
        )


def _decoded(body: bytes) -> Any:
    # The decoder holds the GIL, except while it calls a hook.
    hook = _unchanged if len(body) >= LARGE_BODY else None
    try:
        return json.loads(body, object_hook=hook)
    except (json.JSONDecodeError, UnicodeDecodeError):
        raise
    except ValueError:  # a number of more digits than Python converts
        return json.loads(body, object_hook=hook, parse_int=whole)


def _unchanged(value: dict[str, Any]) -> dict[str, Any]:
    return value


def _number(value: str | None) -> float | None:
    # float() also accepts "nan", "inf" and "1_000".
    if value is None or not _DECIMAL.fullmatch(value.strip()):
        return None
    return max(-LARGEST_NUMBER, min(float(value), LARGEST_NUMBER))


def _http_date(value: str | None) -> float | None:
    if not value:
        return None
    try:
        return parsedate_to_datetime(value).timestamp()
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


def host_of(url: str) -> str:
    """Host and port of a URL, for errors, which must not contain its path or query."""
    parts = urlsplit(url)
    name = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else str(parts.hostname)
    return f"{name}:{parts.port}" if parts.port else name


def nothing(answer: Answer) -> None:
    """
    No value: only the status of the answer matters.

    :raises TransportError: there is a body that is not JSON, such as the page of a proxy.
    """
    if answer.body:
        answer.json()


def thing(answer: Answer) -> Any:
    """
    An object.

    :raises TransportError: the body is not an object.
    """
    body = answer.json()
    if not isinstance(body, dict):
        raise _misshapen(answer, "an object")
    return body


def inbox(answer: Answer) -> Any:
    """
    An inbox: an object with its required fields, ``id`` and ``status``.

    :raises TransportError: the body is not an inbox.
    """
    body = thing(answer)
    if not (_text(body.get("id")) and _text(body.get("status"))):
        raise _misshapen(answer, "an inbox with an id and a status")
    return _named(body)


def guess(answer: Answer) -> Any:
    """
    A suggested workflow with its required fields (docs/service.md 13.1).

    :raises TransportError: the body is not a suggested workflow.
    """
    body = thing(answer)
    steps = body.get("steps")
    if not (_text(body.get("title"), or_empty=True) and _text(body.get("prefilled_url")) and _objects(steps)):
        raise _misshapen(answer, "a guess with title, steps and prefilled_url")
    for each in steps:
        others = each.get("alternatives")
        raw = [each.get("step"), *(others if isinstance(others, list) else ())]
        if not _objects(raw) or not all(_text(one.get(name)) for one in raw for name in ("app", "api")):
            raise _misshapen(answer, "a guess whose steps have app and api")
    return body


def receipt(answer: Answer) -> Any:
    """
    The response to an acknowledgement or a release.

    :raises TransportError: ``results`` is not a list of objects.
    """
    body = thing(answer)
    if body.get("results") is not None and not _objects(body["results"]):
        raise _misshapen(answer, "an object with a list of results")
    return body


def page(answer: Answer) -> Any:
    """
    A page of a listing: an object with ``results``, a list of objects, and the URL ``next``.

    :raises TransportError: the body is not such a page.
    """
    body = _with_results(answer)
    following = body.get("next")
    if not (following is None or isinstance(following, str)) or not _plain_ids(body["results"]):
        raise _misshapen(answer, "a page of a listing")
    return body


def page_of_inboxes(answer: Answer) -> Any:
    """
    A page of inboxes, each with the fields that ``inbox`` requires.

    :raises TransportError: the body is not such a page.
    """
    body = page(answer)
    if not all(_text(each.get("id")) and _text(each.get("status")) for each in body["results"]):
        raise _misshapen(answer, "a page of inboxes with an id and a status")
    for each in body["results"]:
        _named(each)
    return body


def _named(inbox: dict[str, Any]) -> dict[str, Any]:
    """The inbox with ``name``; newer servers may only send ``key`` (docs/service.md 2)."""
    if inbox.get("name") is None and inbox.get("key") is not None:
        inbox["name"] = inbox["key"]
    return inbox


def lease(answer: Answer) -> Any:
    """
    A lease.

    A defect of one message must not make the whole lease unreadable: its messages would be leased together
    repeatedly, until the service quarantines all of them. What cannot be decoded is replaced by its text,
    and an entry that is not an object by an empty one. Attributes that are not objects become None.

    :raises TransportError: the body is not a lease.
    """
    try:
        body = answer.json()
    except TransportError as unreadable:
        try:
            body = lenient_json.decode(answer.body)
        except ValueError:
            raise unreadable from None
    results = body.get("results") if isinstance(body, dict) else None
    if not isinstance(results, list):
        raise _misshapen(answer, "an object with a list of results")
    body["results"] = [entry if isinstance(entry, dict) else {} for entry in results]
    for attributes, holders in (("inbox_attributes", [body]), ("message_attributes", body["results"])):
        for holder in holders:
            if attributes in holder and not isinstance(holder[attributes], dict):
                holder[attributes] = None
    for message in body["results"]:
        message.pop("payload_json", None)  # not a field of the service
    body["sent_at"] = answer.sent_at
    return body


def templates(answer: Answer) -> list[Template]:
    """
    A list of objects (docs/service.md 7).

    :raises TransportError: the body is not such a list.
    """
    body = answer.json()
    if not _objects(body) or not _plain_ids(body):
        raise _misshapen(answer, "a list of templates")
    return cast("list[Template]", body)


def _with_results(answer: Answer) -> Any:
    body = thing(answer)
    if not _objects(body.get("results")):
        raise _misshapen(answer, "an object with a list of results")
    return body


def _objects(value: Any) -> bool:
    return isinstance(value, list) and {type(each) for each in value} <= {dict}


def _text(value: Any, *, or_empty: bool = False) -> bool:
    return isinstance(value, str) and (or_empty or bool(value))


def _plain_ids(items: list[dict[str, Any]]) -> bool:
    """Whether no id is an object or a list: listings use the ids as keys."""
    return {type(each.get("id")) for each in items}.isdisjoint((dict, list))


def _misshapen(answer: Answer, wanted: str) -> TransportError:
    text = f"the answer with status {answer.status} has a body that is not {wanted}"
    return TransportError(text, sent=True)


def plain(text: str, longest: int = 300) -> str:
    """
    A string of the service, escaped so that it is safe in an error, a log line, an event or an XCom.

    :param longest: maximum number of characters; a longer string is truncated.
    """
    cut = text if len(text) <= longest else text[: longest - 3] + "..."
    if cut.isprintable():
        return cut
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in cut)
