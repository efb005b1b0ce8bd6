"""
One cell of the fault matrix: a call, sent by one of the senders to a service that misbehaves.

What a cell has to show stands here in the words of docs/service.md, and is taken from no table of
the client: a wrong table would otherwise prove itself right.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest

from airflow_provider_workflow.client import errors
from airflow_provider_workflow.client.tokens import AccessToken, token_key
from tests.traces import secrets_in
from tests.unit.client.calls import OPERATIONS, make
from tests.unit.client.scripted_server import Script, ScriptedServer, answer
from tests.unit.client.senders import SENDERS, StepsSender

ATTEMPTS = 5
STEPS = StepsSender.name
"""
The sender without a network. What an answer means to a call is decided above the transports, so the whole
table of answers is played to this one, and a few rows of it to each transport.
"""
CALLS = [name for name in OPERATIONS if name != "events"]  # the stream is another kind of thing
TOKEN_CALLS = frozenset({"app_token", "exchange_code", "refresh_user_token"})
WITHOUT_ACCESS_TOKEN = TOKEN_CALLS | {"guess", "list_templates"}
SENT_ONCE = frozenset(
    {
        *("guess", "exchange_code", "refresh_user_token", "create_inbox"),
        *("pause_inbox", "resume_inbox", "lease_messages"),
    }
)
"""Calls that are not sent again where the service may have taken them."""
SECRETS = (
    *("a-secret", base64.b64encode(b"an-id:a-secret").decode(), "warm-token", "scripted-token"),
    *("a-code", "a-refresh-token"),
)
"""What the client holds in a cell; no error shows any of it."""
REPEATED_BY_AIOHTTP = frozenset({"GET", "PUT", "DELETE"})
"""Methods that aiohttp itself sends once more when a connection breaks (RFC 9110, section 9.2.2)."""


def check(complaints: Mapping[str, str]) -> None:
    """Fail with what is wrong, by cell; nothing may be."""
    if wrong := {cell: complaint for cell, complaint in complaints.items() if complaint}:
        lines = (f"  {cell}: {complaint}" for cell, complaint in wrong.items())
        pytest.fail("\n".join((f"{len(wrong)} of {len(complaints)} cells are wrong:", *lines)), pytrace=False)


def attempts_of(name: str) -> int:
    """How often a call is sent where each attempt may have had its effect."""
    return 1 if name in SENT_ONCE else ATTEMPTS


def by(kind: str, times: int) -> int:
    """How often a client sends what a task sends so often: a trigger makes one attempt."""
    return times // ATTEMPTS if kind == "aiohttp" and times >= ATTEMPTS else times


@dataclass(frozen=True)
class Outcome:
    """What came of a cell: what the call returned or raised, and its requests as the service read them."""

    kind: str
    value: Any
    error: errors.WorkflowError | None
    requests: list[bytes] = field(repr=False)
    token_requests: list[bytes] = field(repr=False)
    naps: list[float]

    @property
    def sent(self) -> int:
        return len(self.requests)


@dataclass(frozen=True)
class Expected:
    """
    What has to come of a cell in a task.

    :param says: what the text of the error has to hold: whose fault it was, and what for.
    :param sent: how often the call is sent.
    :param tokens: how often an access token is asked for, beside the one that was there.
    :param has: attributes of the error.
    """

    kind: type[errors.WorkflowError]
    says: tuple[str, ...]
    sent: int
    tokens: int = 0
    has: Mapping[str, Any] = field(default_factory=dict)

    def complaint(self, outcome: Outcome) -> str:
        """What is wrong with an outcome; nothing where it is as it has to be."""
        error = outcome.error
        if type(error) is not self.kind:
            return f"{self.kind.__name__} was due, not {error!r} (value: {str(outcome.value)[:100]})"
        complaints = [f"{part!r} is not in {str(error)!r}" for part in self.says if part not in str(error)]
        if not str(error).isprintable():
            complaints.append(f"no single line: {str(error)!r}")
        complaints += [f"secrets are shown by {place}" for place in secrets_in(error, SECRETS)]
        heads = [request.splitlines()[0].decode() for request in (*outcome.requests, *outcome.token_requests)]
        complaints += [
            f"a secret is in {head!r}" for head in heads if any(secret in head for secret in SECRETS)
        ]
        requests, tokens = by(outcome.kind, self.sent), by(outcome.kind, self.tokens)
        if outcome.sent != requests:
            complaints.append(f"sent {outcome.sent} times and not {requests}")
        if len(outcome.token_requests) != tokens:
            complaints.append(f"{len(outcome.token_requests)} tokens were asked for and not {tokens}")
        for name, value in self.has.items():
            if getattr(error, name) != value:
                complaints.append(f"{name} is {getattr(error, name)!r} and not {value!r}")
        return "; ".join(complaints)


class Service(ScriptedServer):
    """A scripted server that many cells use, one after the other."""

    def play(
        self,
        kind: str,
        name: str,
        *answers: Script,
        warm: bool = True,
        token: Script | None = None,
        **more: Any,
    ) -> Outcome:
        """
        Send a call.

        :param kind: which of the senders sends it; :data:`STEPS` sends nothing and asks for the answers.
        :param answers: to the call, one after the other, the last of them for ever.
        :param warm: whether the sender has an access token already.
        :param token: answer of the token endpoint to those who need an access token.
        :param more: changes of the settings, ``longest_wait``, or the sender's ``clock``.
        """
        options = {key: more.pop(key) for key in ("longest_wait", "clock") if key in more}
        if name in TOKEN_CALLS and "token_url" not in more:
            more["token_url"] = f"{more.get('base_url', self.url)}/oauth"
        settings = self.settings(**more)
        self.script(*answers, token=token)
        make_sender = partial(StepsSender, reply=self.reply) if kind == STEPS else SENDERS[kind]
        value, error = None, None
        with closing(make_sender(settings, **options)) as sender:
            for scope in (settings.scope, "promotions:write") if warm else ():
                now = sender.clock.monotonic()
                token = AccessToken("warm-token", now + 3000, now + 3600)
                sender.tokens.put(token_key(settings, scope), token)
            try:
                value = sender(make(name))
            except errors.WorkflowError as fault:
                error = fault
        return Outcome(kind, value, error, list(self.requests), list(self.token_requests), sender.naps)


INBOX = {"id": "an-id", "name": "orders", "status": "active", "paused_reason": None}
MESSAGE = {"id": "m-1", "created_at": "x", "status": "available", "message_attributes": {"lease_count": 1}}
STEP = {"step": {"title": None, "app": "Mail", "api": "MailAPI@1"}, "alternatives": []}
PAGE = {"count": 1, "next": None, "previous": None}
TOKEN = {"access_token": "a-token", "refresh_token": "b", "expires_in": 36000, "token_type": "Bearer"}
GOOD: dict[str, Any] = {
    **dict.fromkeys(CALLS, INBOX),
    **dict.fromkeys(TOKEN_CALLS, TOKEN),
    "guess": {
        "title": "A title",
        "steps": [STEP],
        "prefilled_url": "https://e.example.com/x",
        "messages": [],
    },
    "list_templates": [{"id": 1, "title": "T", "steps": []}],
    "list_inboxes": {**PAGE, "results": [INBOX]},
    "list_messages": {**PAGE, "results": [MESSAGE]},
    "lease_messages": {
        "lease_id": "l-1",
        "leased_until": "x",
        "results": [{**MESSAGE, "payload": {"n": 1}}],
        "inbox_attributes": {"status": "active", "paused_reason": None},
    },
    "acknowledge_messages": {"acked_id": "a-1", "results": [MESSAGE]},
    "release_messages": {"released_id": "r-1", "results": [MESSAGE]},
}


def good(name: str) -> bytes:
    """A good answer to a call."""
    return answer(204) if name == "unenroll_promotion" else answer(200, GOOD[name])
