"""
What both clients do for a call: rate gates, tokens, one request, and the value or the error of its answer.

It is straight code that awaits. How a client sends a request and how it waits are methods of its own, so that
calls are sent over ``requests`` in tasks and over ``aiohttp`` in triggers, by the same decisions::

    class BaseClient:
        async def attempt(self, call):  # without its error handling
            await self._wait_at_gate(call)
            token, _ = await self.token_of(scope)
            answer = await self._request(self.build(call, token))
            if answer.status == 401:
                await self._sleep(1.5)
                answer = await self._request(self.build(call, token))
            return call.read(answer)

The trigger's client awaits ``aiohttp`` and the event loop. The methods of the task's client block, so none of
its coroutines ever suspends. One call of ``send`` runs such a coroutine to its end, without an event loop::

    class WorkflowClient(BaseClient):
        async def _sleep(self, seconds):
            clock.sleep(seconds)


    def finished(work):
        try:
            work.send(None)
        except StopIteration as end:
            return end.value

=================== ====================================== ==============================================
method              in a task                              in a trigger
=================== ====================================== ==============================================
``_request``        ``requests``, and blocks               ``aiohttp``
``_sleep``          blocks                                 ``asyncio.sleep``
``_in_thread``      calls the function                     runs it in a thread
``_renewed``        blocks until another thread's renewal  awaits the renewal of another task or thread
                    of a token has ended
``_call``           sends a call with its retries          sends it once
``_carry_through``  awaits                                 awaits to the end, even if it is cancelled
=================== ====================================== ==============================================
"""

from __future__ import annotations

import base64
import json
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from dataclasses import replace
from functools import cache, partial
from typing import Any, TypeVar

from urllib3.filepost import encode_multipart_formdata

from airflow_provider_workflow import __version__, clock
from airflow_provider_workflow.client.advice import add_fix
from airflow_provider_workflow.client.answers import failure, unusable
from airflow_provider_workflow.client.call import PROMOTIONS_SCOPE, WITH_CLIENT_ID, Call, Family
from airflow_provider_workflow.client.errors import (
    MAX_WAIT_SECONDS,
    AuthenticationError,
    RateLimitError,
    ServerError,
    TransportError,
    WorkflowError,
)
from airflow_provider_workflow.client.http_messages import THREAD_FROM_BYTES, Answer, Request
from airflow_provider_workflow.client.secrets import masked_answer
from airflow_provider_workflow.client.settings import DEFAULT_TIMEOUT, USER_GRANT, Settings, proxy_for
from airflow_provider_workflow.client.tokens import (
    TOKENS,
    AccessToken,
    Key,
    Renewal,
    TokenCache,
    access_token,
    app_access_token,
    token_key,
    user_access_token,
)
from airflow_provider_workflow.client.user_tokens import Renewer, TokenStore

log = logging.getLogger(__name__)

T = TypeVar("T")

Observer = Callable[[Call[Any], Any, float], None]
"""
Called after each attempt with the call, its value or ``WorkflowError``, and when the attempt began, in
seconds since 1970. It must not raise.
"""

MAX_GATE_WAIT_SECONDS = 60.0
"""
Maximum time that a call waits until the service accepts calls again; ``RateLimitError`` says that it takes
longer.
"""
TARGET_LEASE_BYTES = 4_000_000
"""
Maximum size of the answer to a lease, if its messages are as large as those before. A task needs about 22
bytes of memory for each of them, 90 MB in all.
"""


NEW_TOKEN_PAUSE_SECONDS = 1.5
"""Wait before a token that was just issued is sent again: the clock of the service can be a second behind."""
LEASE_THREAD_FROM_BYTES = 4_000
"""Bytes. A lease from this size on is decoded in a thread: a defective one takes 40 times as long."""
_HEADERS = {
    "Accept": "application/json",
    "Accept-Encoding": "identity",
    "User-Agent": f"airflow-provider-workflow/{__version__}",
}
_ENCODER = json.JSONEncoder(separators=(",", ":"))


Gate = tuple[str, str, Family]
"""A base URL, a client ID and a family."""
GATES: dict[Gate, float] = {}
"""When each gate opens (``clock.monotonic``), for all clients of this process."""


def _ignore(*_: object) -> None:
    """Do nothing: the default of a callback."""


class BaseClient(ABC):
    """
    The shared base of both clients; they add the network, and how to wait.

    :param settings: the checked connection.
    :param tokens: cache of access tokens; the one of the process by default.
    :param gates: when each rate gate opens; those of the process by default.
    :param longest_wait: maximum wait at a rate gate in seconds, then ``RateLimitError``.
    :param on_token: called with every new access token, so that the logs of a task can mask it.
    :param store: store of user tokens; only needed for the grant ``refresh_token``.
    :param observe: called with the outcome of each attempt of a call.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        tokens: TokenCache = TOKENS,
        gates: dict[Gate, float] = GATES,
        longest_wait: float = MAX_GATE_WAIT_SECONDS,
        on_token: Callable[[str], None] = _ignore,
        store: TokenStore | None = None,
        observe: Observer = _ignore,
    ) -> None:
        self.settings = settings
        self.tokens = tokens
        self.observe = observe
        self._gates = gates
        self._longest_wait = longest_wait
        self._on_token = on_token
        self._store = store
        pair = f"{settings.client_id}:{settings.client_secret}"
        self._credentials = base64.b64encode(pair.encode()).decode()
        # The proxy of a URL, as the environment defined it at the first call.
        self._proxy_for = cache(proxy_for)

    @property
    def renewal_seconds(self) -> float:
        """Maximum wait for a token that another caller renews: as long as one attempt of that may take."""
        return self._longest_wait + self.settings.timeout

    @abstractmethod
    async def _request(self, request: Request) -> Answer:
        """
        Send a request, once.

        :raises TransportError: no complete answer was received.
        """

    @abstractmethod
    async def _sleep(self, seconds: float) -> None:
        """Wait."""

    @abstractmethod
    async def _in_thread(self, function: Callable[[], T]) -> T:
        """Run a function that may block, where it does not block the caller's event loop."""

    @abstractmethod
    async def _renewed(self, renewal: Renewal) -> None:
        """
        Wait until another caller has renewed a token.

        :raises TimeoutError: it has not within ``renewal_seconds``.
        """

    async def _call(self, call: Call[T]) -> T:
        """The value of a call on which another one depends."""
        return await self.attempt(call)

    async def _carry_through(self, work: Coroutine[Any, Any, T]) -> T:
        """Await what must not be interrupted."""
        return await work

    async def attempt(self, call: Call[T]) -> T:
        """
        One attempt: wait at the rate gate, get a token if needed, send the request, return the value.

        :raises WorkflowError: the attempt failed; ``may_repeat`` says whether to make another one.
        """
        began_at = clock.now()
        try:
            value = await self._attempt(call)
        except WorkflowError as error:
            add_fix(error, call, self.settings)
            if error.may_repeat is None:  # else the call for the token failed
                error.may_repeat = self._may_repeat(call, error)
            self.observe(call, error, began_at)
            raise
        self.observe(call, value, began_at)
        return value

    def _may_repeat(self, call: Call[Any], error: WorkflowError) -> bool:
        if isinstance(error, TransportError):
            return not error.permanent and (call.repeatable or not error.sent)
        if isinstance(error, ServerError) and not call.repeatable:
            return False
        if not isinstance(error, (RateLimitError, ServerError)):
            return False
        # The next attempt would have to wait as long.
        return error.retry_after is None or error.retry_after <= self._longest_wait

    async def _attempt(self, call: Call[T]) -> T:
        place = self.settings.base_url, call.path
        if call.json is not None and (most := _fitting.get(place)) is not None:
            limit = min(most, call.json["lease_limit"])
            call = replace(call, json={**call.json, "lease_limit": limit})
        await self._wait_at_gate(call)
        answer, token = await self._answered(call)
        if not answer.is_success:
            raise failure(call, answer)
        if answer.is_cut:
            raise _too_large(call, self.settings)
        try:
            read = partial(call.read, answer)
            large = LEASE_THREAD_FROM_BYTES if call.name == "lease_messages" else THREAD_FROM_BYTES
            value = await self._in_thread(read) if len(answer.body) > large else read()
            if call.name == "lease_messages":
                count = partial(_fitting_after, value, len(answer.body))
                fitting = await self._in_thread(count) if len(answer.body) > TARGET_LEASE_BYTES / 100 else 100
                # A large message is remembered for a few leases.
                _fitting[place] = min(fitting, 2 * _fitting.get(place, 100))
            return value
        except (TransportError, AuthenticationError) as unreadable:
            kind, text = type(unreadable), str(unreadable)
        # Raised after the except clause: within it, it would have a context, whose frames contain the answer.
        raise unusable(call, kind, text, masked_answer(answer, self._secrets(call, token)))

    async def _answered(self, call: Call[Any]) -> tuple[Answer, AccessToken | None]:
        """
        Send a call, with an access token if it needs one, and return the answer and the token.

        A rejected token is renewed; a new one is sent again after a moment, once (docs/service.md 11.4).
        """
        if call.family not in (Family.INBOX, Family.PROMOTIONS):
            return await self._send(call, None), None
        scope = PROMOTIONS_SCOPE if call.family is Family.PROMOTIONS else self.settings.scope
        key = token_key(self.settings, scope)
        token, is_new = await self.token_of(scope)
        answer = await self._send(call, token)
        if not is_new and _rejects_token(call, answer):
            self.tokens.drop(key, token.value)
            token, _ = await self.token_of(scope)
            answer = await self._send(call, token)
        elif not is_new and answer.status == 401:
            # A new token would have the same scope (docs/service.md 14.4), until a user corrects it.
            self.tokens.forget(key)
        if _rejects_token(call, answer) and self._longest_wait >= NEW_TOKEN_PAUSE_SECONDS:
            await self._sleep(NEW_TOKEN_PAUSE_SECONDS)
            answer = await self._send(call, token)
        return answer, token

    async def _wait_at_gate(self, call: Call[Any]) -> None:
        gate = self._gate_of(call)
        while (seconds := self._gates.get(gate, 0.0) - clock.monotonic()) > 0:
            if seconds > self._longest_wait:
                text = f"the service accepts no {call.family.value} calls for {seconds:.0f} s"
                raise RateLimitError(f"{call.name} was not sent: {text}", status=0, retry_after=seconds)
            await self._sleep(seconds)

    def _gate_of(self, call: Call[Any]) -> Gate:
        settings = self.settings
        base = settings.token_url if call.family is Family.TOKEN else settings.base_url
        return base, settings.client_id, call.family

    async def token_of(self, scope: str) -> tuple[AccessToken, bool]:
        """
        The access token of a scope, and whether it was issued now: otherwise it is from the cache or the
        store of user tokens, and the service may have rejected it meanwhile.

        :raises WorkflowError: no token could be obtained.
        """
        key = token_key(self.settings, scope)
        before = self.tokens.usable(key)
        token = await access_token(self.tokens, key, partial(self._obtain, key), self._renewed)
        if before is not None and before.value == token.value:
            return token, False
        self._on_token(token.value)
        return token, token.issued

    async def _obtain(self, key: Key) -> AccessToken:
        """A token of the service, or the user's from the store."""
        if key.grant != USER_GRANT:
            return await app_access_token(self.tokens, key, self._call)
        store = self._store
        renewer = None if store is None else Renewer(store, self._call, self._sleep, self._in_thread)
        # Interrupted, it could lose the user's refresh token.
        return await self._carry_through(user_access_token(self.tokens, key, renewer))

    async def _send(self, call: Call[Any], token: AccessToken | None) -> Answer:
        sent_at = clock.now()
        answer = await self._request(self.build(call, token))
        answer.sent_at = sent_at
        if (seconds := answer.retry_after()) is not None:
            gate = self._gate_of(call)
            # Never earlier than an answer before it said.
            opens_at = clock.monotonic() + min(seconds, MAX_WAIT_SECONDS)
            self._gates[gate] = max(self._gates.get(gate, 0.0), opens_at)
        return self.hide(answer, call, token)

    def build(self, call: Call[Any], token: AccessToken | None) -> Request:
        """
        Build the request of a call. Its URL is always one of the connection's, so no other host gets a token.

        :param token: access token; None if the call needs none.
        :raises ConfigurationError: the proxy is not an HTTP proxy.
        """
        base, path = self._address(call)
        headers, proxy = dict(_HEADERS), self._proxy_for(base)
        query = dict(call.query)
        body = None
        if call.family in WITH_CLIENT_ID:
            query["client_id"] = self.settings.client_id
        elif call.family is Family.TOKEN:
            headers["Authorization"] = f"Basic {self._credentials}"
        elif token is not None:
            headers["Authorization"] = f"Bearer {token.value}"
        if call.json is not None:
            body = _ENCODER.encode(call.json).encode()
            headers["Content-Type"] = "application/json"
        elif call.form is not None:
            body, headers["Content-Type"] = encode_multipart_formdata(dict(call.form))
        return Request(
            method=call.method,
            url=base + path,
            query=query,
            headers=headers,
            body=body,
            # Without its answer, a user's refresh token is lost.
            timeout=max(self.settings.timeout, 0 if call.repeatable or not call.form else DEFAULT_TIMEOUT),
            proxy=proxy,
            limit=call.limit,
        )

    def _address(self, call: Call[Any]) -> tuple[str, str]:
        settings = self.settings
        if call.family is Family.INBOX:
            return settings.base_url, settings.inbox_path + call.path
        if call.family is Family.TEMPLATES:
            return settings.base_url, settings.templates_path + call.path
        if call.family is Family.TOKEN:
            return settings.token_url, ""
        return settings.base_url, call.path

    def hide(self, answer: Answer, call: Call[Any], token: AccessToken | None) -> Answer:
        """Mask the request's secrets in an answer, as far as errors quote it."""
        if answer.is_success and answer.headers.get("content-type") in ("application/json", None):
            return answer
        return masked_answer(answer, self._secrets(call, token), with_body=not answer.is_success)

    def _secrets(self, call: Call[Any], token: AccessToken | None) -> list[str]:
        form = call.form or {}
        secrets = (
            self._credentials,
            self.settings.client_secret,
            token and token.value,
            form.get("code"),
            form.get("refresh_token"),
        )
        return [secret for secret in secrets if secret]


def _rejects_token(call: Call[Any], answer: Answer) -> bool:
    """Whether an answer is about the access token: another one may help (docs/service.md 11)."""
    if answer.status not in (400, 401):
        return False
    code = failure(call, answer).code
    return code == "unauthenticated" if answer.status == 400 else code != "invalid_audience"


_fitting: dict[tuple[str, str], int] = {}
"""How many messages a lease can have; by base URL and path."""


def _fitting_after(lease: Any, size: int) -> int:
    """
    How many messages as large as the largest one of a lease fit into the next one.

    :param size: bytes of the answer.
    """
    messages = lease["results"]
    if len(messages) < 2:
        return max(1, TARGET_LEASE_BYTES // size)
    largest = max(len(_ENCODER.encode(message)) for message in messages)
    return max(1, TARGET_LEASE_BYTES // largest)


def _too_large(call: Call[Any], settings: Settings) -> TransportError:
    text = f"{call.name}: the answer is larger than {call.limit:,} bytes"
    if call.json is None or "lease_limit" not in call.json:
        return TransportError(text, sent=True, permanent=True)
    # One message fits; how many more do is unknown, and a second lease like this would cost a delivery too.
    _fitting[settings.base_url, call.path] = 1
    error = TransportError(
        f"{text}, so its messages are redelivered when their lease ends, and the next lease has one message."
        f" Lower lease_limit, which was {call.json['lease_limit']}",
        sent=True,
    )
    error.fix = "lower lease_limit"
    return error
