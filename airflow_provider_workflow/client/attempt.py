"""
One attempt of a call, from the rate gate to the value, as a generator of steps that a sender performs.

Calls are sent over ``requests`` in tasks and over ``aiohttp`` in triggers. Both make the same decisions:
which token to send, how long to wait, which error to raise. These are implemented once, here and in
``tokens.py``, as generators without I/O. Each I/O operation is a *step*: the generator yields it, a sender
(one of the two classes of ``client.py``) performs it, and sends its result into the generator or throws its
error.

A generator that waits, sends a request, and repeats it with a new token::

    def attempt(call, parties):
        yield Pause(1.5)  # result: None, after the wait
        token = yield from access_token(...)  # the steps of another generator
        answer = yield Request("POST", ...)  # result: an ``Answer``
        if answer.status == 401:
            answer = yield Request("POST", ...)
        return call.read(answer)

The loops that perform the steps, without error handling (complete in ``client.py``)::

    def run(exchange):  # WorkflowClient: in a task
        step = next(exchange)
        while True:  # until StopIteration, which has the generator's return value
            step = exchange.send(self._perform(step))  # clock.sleep, requests

    async def run(exchange):  # AsyncWorkflowClient: in a trigger
        step = next(exchange)
        while True:
            step = exchange.send(await self._perform(step))  # clock.async_sleep, aiohttp

A test does not need a sender: it can call ``next`` and ``send`` and check the steps.

===================== ============================================ =============================
step                  what the sender does                         result
===================== ============================================ =============================
``Request``           sends this request, once                     the ``Answer``
``Call``              sends this call, with its retries            its value
``Pause``             waits                                        None
``Renewal``           waits for a token that another caller renews None, or the renewal's error
``UseStore``          reads or writes the user's tokens            ``UserTokens`` or None
``Read``              parses a large answer                        the value
``CarryThrough``      runs another generator without cancellation  its return value
===================== ============================================ =============================
"""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import Callable, Generator
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, TypeVar

from urllib3.filepost import encode_multipart_formdata

from airflow_provider_workflow import __version__, clock
from airflow_provider_workflow.client import inboxes
from airflow_provider_workflow.client.call import (
    CONNECTION_SCOPE,
    Call,
    CarryThrough,
    Family,
    Identity,
    Pause,
    Read,
)
from airflow_provider_workflow.client.errors import (
    AuthenticationError,
    RateLimitError,
    TransportError,
    WorkflowAPIError,
    WorkflowError,
)
from airflow_provider_workflow.client.failures import failure, name_connection
from airflow_provider_workflow.client.masking import masked_answer
from airflow_provider_workflow.client.settings import Settings, proxy_for
from airflow_provider_workflow.client.tokens import Renewal, TokenCache, access_token, token_key
from airflow_provider_workflow.client.wire import BELIEVED_WAIT_SECONDS, LARGE_BODY, Answer, Request

log = logging.getLogger(__name__)

T = TypeVar("T")

Observer = Callable[[Call[Any], Any, float], None]
"""
Called after each attempt with the call, its value or ``WorkflowError``, and when the attempt began, in
seconds since 1970. It must not raise.
"""

Step = Request | Pause | Renewal | Call[Any] | CarryThrough | Read

_HEADERS = {
    "Accept": "application/json",
    "Accept-Encoding": "identity",
    "User-Agent": f"airflow-provider-workflow/{__version__}",
}
_ENCODER = json.JSONEncoder(separators=(",", ":"))


@dataclass
class Gate:
    """
    Delays the calls of a family while the service does not accept them.

    :param opens_at: from when calls are sent again, by ``clock.monotonic``.
    """

    opens_at: float = 0.0

    def close(self, seconds: float) -> None:
        """Delay calls for this many seconds; never shortens an earlier delay."""
        self.opens_at = max(self.opens_at, clock.monotonic() + seconds)

    def delay(self) -> float:
        """Seconds until a call can be sent."""
        return max(0.0, self.opens_at - clock.monotonic())


class Gates:
    """One gate for each base URL, client ID and family, so that they do not delay each other."""

    def __init__(self) -> None:
        self._gates: dict[tuple[str, str, Family], Gate] = {}

    def of(self, settings: Settings, family: Family) -> Gate:
        """The gate for this connection's calls of a family."""
        base = settings.token_url if family is Family.TOKEN else settings.base_url
        key = (base, settings.client_id, family)
        return self._gates.get(key) or self._gates.setdefault(key, Gate())


GATES = Gates()
"""The gates that all clients of this process share."""


@dataclass(frozen=True)
class Bearer:
    """
    The access token of a call. Not a plain string, as some error reporters print the variables of each frame.

    :param token: the access token.
    :param fresh: whether it was issued for this call.
    """

    token: str = field(repr=False)
    fresh: bool


def build(
    settings: Settings,
    call: Call[Any],
    bearer: Bearer | None = None,
    proxy_of: Callable[[str], str | None] = proxy_for,
) -> Request:
    """
    Build the request of a call. Its URL is always one of the connection's, so no other host gets a token.

    :param bearer: access token, if the call needs one.
    :param proxy_of: returns the proxy for a URL.
    :raises ConfigurationError: the proxy is not an HTTP proxy.
    """
    base, path = _address(settings, call)
    headers = dict(_HEADERS)
    query = dict(call.query)
    body = None
    if call.identity is Identity.CLIENT_ID:
        query["client_id"] = settings.client_id
    elif call.identity is Identity.BASIC:
        headers["Authorization"] = f"Basic {_pair(settings)}"
    elif bearer is not None:
        headers["Authorization"] = f"Bearer {bearer.token}"
    if call.json is not None:
        body = _ENCODER.encode(call.json).encode()
        headers["Content-Type"] = "application/json"
    elif call.form is not None:
        body, headers["Content-Type"] = encode_multipart_formdata(dict(call.form))
    proxy = proxy_of(base)
    return Request(call.method, base + path, query, headers, body, settings.timeout, proxy, call.limit)


def _pair(settings: Settings) -> str:
    return base64.b64encode(f"{settings.client_id}:{settings.client_secret}".encode()).decode()


def _address(settings: Settings, call: Call[Any]) -> tuple[str, str]:
    """One of the connection's two base URLs, and the path to append to it."""
    if call.family is Family.INBOX:
        return settings.base_url, settings.inbox_path + call.path
    if call.family is Family.TEMPLATES:
        return settings.base_url, settings.templates_path + call.path
    if call.family is Family.TOKEN:
        return settings.token_url, ""
    return settings.base_url, call.path


def hide(answer: Answer, settings: Settings, call: Call[Any], bearer: Bearer | None = None) -> Answer:
    """Mask the request's secrets in an answer, as far as errors quote it."""
    if answer.is_success and answer.headers.get("content-type") in ("application/json", None):
        return answer
    form = call.form or {}
    token = bearer and bearer.token
    secrets = (_pair(settings), settings.client_secret, token, form.get("code"), form.get("refresh_token"))
    return masked_answer(answer, [secret for secret in secrets if secret])


def ignore(*_: object) -> None:
    """Do nothing: the default of a callback."""


@dataclass(frozen=True)
class Parties:
    """
    What all attempts of a client share.

    :param settings: the connection.
    :param tokens: cache of access tokens.
    :param gates: the rate gates.
    :param longest_wait: maximum wait at a rate gate in seconds, then ``RateLimitError``; None: no maximum.
    :param on_token: called with every new access token, so that logs can mask it.
    :param observe: called with the outcome of each attempt.
    :param proxy_for: returns the proxy for a URL, as the environment defined it at the first call.
    """

    settings: Settings
    tokens: TokenCache
    gates: Gates
    longest_wait: float | None
    on_token: Callable[[str], None]
    observe: Observer = ignore
    proxy_for: Callable[[str], str | None] = field(default_factory=lambda: cache(proxy_for))


def attempt(call: Call[T], parties: Parties) -> Generator[Step, Any, T]:
    """
    One attempt: wait at the rate gate, get a token if needed, send the request, return the value.

    :raises WorkflowError: the attempt failed; the retry policy decides whether it is repeated.
    """
    began_at = clock.now()
    try:
        value = yield from _attempt(call, parties)
    except WorkflowError as error:
        if isinstance(error, AuthenticationError):
            name_connection(error, call, parties.settings)
        parties.observe(call, error, began_at)
        raise
    parties.observe(call, value, began_at)
    return value


def _attempt(call: Call[T], parties: Parties) -> Generator[Step, Any, T]:
    call = inboxes.with_fitting_limit(call, parties.settings)
    gate = parties.gates.of(parties.settings, call.family)
    yield from _wait(gate, call, parties.longest_wait)
    bearer = (yield from bearer_token(call, parties)) if call.identity is Identity.BEARER else None
    answer = yield from _send(call, parties, bearer)
    if (
        bearer is not None
        and not (bearer.fresh or answer.is_success)
        and token_refused(failure(call, answer))
    ):
        # Repeat the request with a new token (docs/service.md 11).
        parties.tokens.drop(token_key(parties.settings, scope_of(call, parties.settings)), bearer.token)
        bearer = yield from bearer_token(call, parties)
        answer = yield from _send(call, parties, bearer)
    if not answer.is_success:
        raise failure(call, answer)
    if answer.is_cut:
        raise inboxes.too_large(call, parties.settings)
    try:
        value: T = (yield Read(call.read, answer)) if len(answer.body) > LARGE_BODY else call.read(answer)
        inboxes.note_size(call, parties.settings, answer, value)
        return value
    except TransportError as unreadable:
        text = str(unreadable)
    # Raised here, it has no context: the frames of the reading function contain the answer.
    raise TransportError(f"{call.name}: {text}", sent=True)


def _wait(gate: Gate, call: Call[Any], longest: float | None) -> Generator[Step, Any, None]:
    while (seconds := gate.delay()) > 0:
        if longest is not None and seconds > longest:
            text = f"the service accepts no {call.family.value} calls for {seconds:.0f} s"
            raise RateLimitError(f"{call.name} was not sent: {text}", status=0, retry_after=seconds)
        yield Pause(seconds)


def _send(call: Call[Any], parties: Parties, bearer: Bearer | None) -> Generator[Step, Any, Answer]:
    sent_at = clock.now()
    answer: Answer = yield build(parties.settings, call, bearer, parties.proxy_for)
    answer = replace(answer, sent_at=sent_at)
    if (seconds := answer.retry_after()) is not None:
        gate = parties.gates.of(parties.settings, call.family)
        _log_capped_wait(gate, call, answer)
        gate.close(seconds)
    return hide(answer, parties.settings, call, bearer)


def _log_capped_wait(gate: Gate, call: Call[Any], answer: Answer) -> None:
    requested = answer.requested_wait() or 0.0
    # Logged once for calls that were in progress at the same time.
    if requested > BELIEVED_WAIT_SECONDS and gate.delay() == 0:
        log.warning(
            "The service requests no %s calls for %.0f s; they are sent again after %.0f s, the maximum wait",
            call.family.value,
            requested,
            BELIEVED_WAIT_SECONDS,
        )


def bearer_token(call: Call[Any], parties: Parties) -> Generator[Any, Any, Bearer]:
    """
    The access token for a call, from the cache or new.

    :raises WorkflowError: no token could be obtained.
    """
    key = token_key(parties.settings, scope_of(call, parties.settings))
    before = parties.tokens.usable(key)
    token = yield from access_token(parties.tokens, key)
    if before is not None and before.value == token:
        return Bearer(token, fresh=False)
    parties.on_token(token)
    after = parties.tokens.usable(key)
    # The service may already have rejected a user's token that came from the store.
    return Bearer(token, fresh=after is None or after.issued)


def scope_of(call: Call[Any], settings: Settings) -> str:
    return settings.scope if call.scope == CONNECTION_SCOPE else call.scope


def token_refused(error: WorkflowAPIError) -> bool:
    """Whether a new token may help (docs/service.md 11)."""
    if error.status not in (400, 401):
        return False
    # The token has the wrong scope, and a new one would have the same (docs/service.md 14.4).
    return error.code == "unauthenticated" if error.status == 400 else error.code != "invalid_audience"
