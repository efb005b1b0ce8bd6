"""
What crosses the wire, as data: a request that is ready to be sent, and the answer to one.

Both senders fill and read the same two classes, so nothing about the protocol lives in a sender.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from email.utils import parsedate_to_datetime
from typing import Any, cast
from urllib.parse import urlsplit

from airflow_provider_workflow import clock
from airflow_provider_workflow.client.errors import RateLimit, TransportError
from airflow_provider_workflow.client.json_steps import Pace, decoded, whole
from airflow_provider_workflow.client.types import Template

EPOCH_RESET_FLOOR = 1e9
"""A reset value from here on is epoch seconds, a smaller one a delta (docs/service.md 15)."""
LARGEST_NUMBER = 1e12
"""What a header says beyond this is as good as never."""
BELIEVED_WAIT_SECONDS = 900.0
"""
How long a wait that the service asks for is believed. It may ask for more by mistake: a date in 2099,
milliseconds in place of seconds, an epoch. After this time it is sent a call again.
"""
BUSY = (429, 503)
"""Statuses whose ``Retry-After`` is a request to send no calls (docs/service.md 15)."""
LARGE_BODY = 64_000
"""Bytes. From here on decoding takes so long (a millisecond) that an event loop has it done beside itself."""
_DECIMAL = re.compile(r"[+-]?[0-9]+(\.[0-9]*)?")


@dataclass(frozen=True)
class Request:
    """
    A request with everything in it. Headers and body stay out of ``repr``: they hold secrets.

    :param method: HTTP method.
    :param url: whole address, without the query.
    :param query: query parameters.
    :param headers: all headers but those that the HTTP library adds.
    :param body: the encoded body, or None.
    :param timeout: seconds for the whole attempt, from connecting to the last byte.
    :param proxy: address of the proxy to send it through, or None.
    """

    method: str
    url: str
    query: Mapping[str, str] = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    body: bytes | None = field(repr=False)
    timeout: float
    proxy: str | None = field(repr=False)


@dataclass(frozen=True)
class Answer:
    """
    What came back.

    :param status: HTTP status code.
    :param headers: the headers, found by their names in lower case.
    :param body: all of the body.
    :param pace: of the thread in which it is read beside an event loop; None anywhere else.
    """

    status: int
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    pace: Pace | None = field(default=None, repr=False, compare=False)

    @property
    def is_success(self) -> bool:
        """Whether the status is a 2xx; ``failures.failure`` says what any other one means."""
        return 200 <= self.status < 300

    def json(self) -> Any:
        """
        Decode the body.

        :raises TransportError: the body is not JSON (cut short, an HTML page, wrong encoding).
        """
        try:
            return _decoded_at_once(self.body) if self.pace is None else decoded(self.body, self.pace)
        except (ValueError, RecursionError):
            pass
        # Out here it has no context: the exceptions of the decoder hold the body, maybe that of a token.
        kind = self.headers.get("content-type", "no content type")
        raise TransportError(
            f"status {self.status} came with a body that is not JSON ({kind}, {len(self.body)} bytes)",
            sent=True,
        )

    def now(self) -> float:
        """
        The service's own clock, in epoch seconds; ours where it sends no ``Date``.

        Dates in headers are compared with this, so a local clock that is wrong does no harm.
        """
        return _http_date(self.headers.get("date")) or clock.now()

    def retry_after(self) -> float | None:
        """Seconds to wait before the next call: what is asked for, up to :data:`BELIEVED_WAIT_SECONDS`."""
        seconds = self.requested_wait()
        return None if seconds is None else min(seconds, BELIEVED_WAIT_SECONDS)

    def requested_wait(self) -> float | None:
        """
        Seconds for which the service asks for no more calls: ``Retry-After`` of a 429 or 503, in seconds
        or as an HTTP date, else the reset header of a window that has nothing left (docs/service.md 15).
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
        """The ``X-RateLimit-*`` headers, or None where none came (docs/service.md 15)."""
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


def _decoded_at_once(body: bytes) -> Any:
    try:
        return json.loads(body)  # which calls nothing back, for speed
    except (json.JSONDecodeError, UnicodeDecodeError):
        raise
    except ValueError:  # a number of more digits than Python converts
        return json.loads(body, parse_int=whole)


def _number(value: str | None) -> float | None:
    # "nan", "inf" and "1_000" are floats to Python and no time to wait.
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
    """How an address is named in texts: host and port, never path or query."""
    parts = urlsplit(url)
    name = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else str(parts.hostname)
    return f"{name}:{parts.port}" if parts.port else name


def causes(error: BaseException) -> list[BaseException]:
    """An exception and all that it came from, innermost last; libraries nest them in several ways."""
    chain = [error]
    while len(chain) < 20:
        last = chain[-1]
        inner = last.__cause__ or last.__context__ or getattr(last, "reason", None)
        inner = inner if isinstance(inner, BaseException) else next(_exceptions(last.args), None)
        if inner is None or inner in chain:
            break
        chain.append(inner)
    return chain


def _exceptions(args: tuple[Any, ...]) -> Iterator[BaseException]:
    return (arg for arg in args if isinstance(arg, BaseException))


DEEPEST = 300
"""Levels: more than Airflow holds, and fewer than Python decodes."""
_STRING_OR_BRACKET = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}]', re.DOTALL)


def nothing(answer: Answer) -> None:
    """
    No value: what such an answer says is its status.

    :raises TransportError: there is a body, and it is not JSON: the page of somebody in between.
    """
    if answer.body:
        answer.json()


def thing(answer: Answer) -> Any:
    """
    An object.

    :raises TransportError: the body is none.
    """
    body = answer.json()
    if not isinstance(body, dict):
        raise _misshapen(answer, "an object")
    return body


def inbox(answer: Answer) -> Any:
    """
    An inbox: an object with the two fields that everybody relies on.

    :raises TransportError: the body is none.
    """
    body = thing(answer)
    if not (_text(body.get("id")) and _text(body.get("status"))):
        raise _misshapen(answer, "an inbox with an id and a status")
    return _named(body)


def guess(answer: Answer) -> Any:
    """
    A suggested workflow with the fields that are required of it (docs/service.md 13.1).

    :raises TransportError: the body is none.
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
    What was acknowledged or released.

    :raises TransportError: the body does not tell.
    """
    body = thing(answer)
    if body.get("results") is not None and not _objects(body["results"]):
        raise _misshapen(answer, "an object with a list of results")
    return body


def page(answer: Answer) -> Any:
    """
    A page of a listing: an object with ``results``, a list of objects, and the address ``next``.

    :raises TransportError: the body is none.
    """
    body = _with_results(answer)
    following = body.get("next")
    if not (following is None or isinstance(following, str)) or not _plain_ids(body["results"]):
        raise _misshapen(answer, "a page of a listing")
    return body


def page_of_inboxes(answer: Answer) -> Any:
    """
    A page of inboxes, each as ``inbox`` has it.

    :raises TransportError: the body is none.
    """
    body = page(answer)
    if not all(_text(each.get("id")) and _text(each.get("status")) for each in body["results"]):
        raise _misshapen(answer, "a page of inboxes with an id and a status")
    for each in body["results"]:
        _named(each)
    return body


def _named(inbox: dict[str, Any]) -> dict[str, Any]:
    """The inbox with its ``name``, which newer servers may send as ``key`` alone (docs/service.md 2)."""
    if inbox.get("name") is None and inbox.get("key") is not None:
        inbox["name"] = inbox["key"]
    return inbox


def lease(answer: Answer) -> Any:
    """
    A lease. One payload that is nested too deep to be decoded must not hide the other messages, which
    would be leased with it again and again until the service quarantines them all: such a payload is
    cut at a depth at which no Airflow holds it, so whoever starts runs refuses that message alone.

    :raises TransportError: the body is none.
    """
    try:
        return _sound(_with_results(answer))
    except TransportError as unreadable:
        try:
            return _sound(_with_results(replace(answer, body=_cut(answer.body, answer.pace))))
        except TransportError:
            raise unreadable from None


def _sound(body: Any) -> Any:
    """
    A lease whose attributes, where they are no objects, are None: its messages are leased already, and
    must not be lost over what is only said about them.
    """
    for attributes, holders in (("inbox_attributes", [body]), ("message_attributes", body["results"])):
        for holder in holders:
            if attributes in holder and not isinstance(holder[attributes], dict):
                holder[attributes] = None
    return body


def _cut(body: bytes, pace: Pace | None) -> bytes:
    """A JSON text in which null stands for whatever is nested deeper than ``DEEPEST`` levels."""
    kept: list[bytes] = []
    depth = done = 0
    for found in _STRING_OR_BRACKET.finditer(body):
        if pace is not None:
            pace()
        sign = found.group()
        if sign in (b"[", b"{"):
            depth += 1
            if depth == DEEPEST + 1:
                kept.append(body[done : found.start()] + b"null")
        elif sign in (b"]", b"}"):
            if depth == DEEPEST + 1:
                done = found.end()
            depth -= 1
    return b"".join((*kept, body[done:]))


def templates(answer: Answer) -> list[Template]:
    """
    A bare list of objects (docs/service.md 7).

    :raises TransportError: the body is none.
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
    """Whether no id is an object or a list: listings tell what they have seen by it."""
    return {type(each.get("id")) for each in items}.isdisjoint((dict, list))


def _misshapen(answer: Answer, wanted: str) -> TransportError:
    return TransportError(f"status {answer.status} came with a body that is not {wanted}", sent=True)


def plain(text: str, longest: int = 300) -> str:
    """
    A string of the service in a form that is safe in an error, a log line, an event or an XCom.

    :param longest: characters that are kept; a longer string is cut.
    """
    cut = text if len(text) <= longest else text[: longest - 3] + "..."
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in cut)
