"""Clients without a network, and the answers that a test gives to their requests."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from airflow_provider_workflow.client.http_messages import Answer, Request
from airflow_provider_workflow.client.settings import Settings
from airflow_provider_workflow.client.sync_client import WorkflowClient
from airflow_provider_workflow.client.tokens import TokenCache

SETTINGS = Settings("https://api.example.com", "an-id", "a-secret", "https://api.example.com/token")

Reply = Answer | BaseException | Callable[[], Any]
"""An answer, an error, or a function that returns an answer."""


class UnansweredError(Exception):
    """A request for which the test has no answer: it sees that the client sends one."""


def ok(body: Any) -> Answer:
    """An answer with this JSON."""
    return Answer(200, {"content-type": "application/json"}, json.dumps(body).encode())


def answer_of(reply: Reply) -> Answer:
    """The answer of a reply."""
    result = reply() if callable(reply) and not isinstance(reply, BaseException) else reply
    if isinstance(result, BaseException):
        raise result
    assert isinstance(result, Answer)
    return result


class _WithoutNetwork(WorkflowClient):
    endpoint: Endpoint

    def exchange(self, request: Request) -> Answer:
        self.endpoint.requests.append(request)
        if not self.endpoint.replies:
            raise UnansweredError
        return answer_of(self.endpoint.replies.pop(0))


class Endpoint:
    """
    What clients without a network send, and what they get.

    :param cache: their access tokens.
    """

    def __init__(self, cache: TokenCache) -> None:
        self.cache = cache
        self.requests: list[Request] = []
        self.replies: list[Reply] = []

    @property
    def forms(self) -> list[dict[str, str]]:
        """The fields of each form that was sent."""
        bodies = [(request.body or b"").decode() for request in self.requests]
        return [dict(re.findall(r'name="(\w+)"\r\n\r\n(.*?)\r\n', body)) for body in bodies]

    def client(self, settings: Settings = SETTINGS, **options: Any) -> WorkflowClient:
        """A client that sends each call once."""
        client = _WithoutNetwork(settings, tokens=self.cache, **{"attempts": 1, **options})
        client.endpoint = self
        return client

    def token(
        self, *replies: Reply, settings: Settings = SETTINGS, scope: str = "external", **options: Any
    ) -> str:
        """
        The token that a client gets, and all replies are used for it.

        :raises AskedError: it sends more requests.
        """
        self.replies = list(replies)
        token = self.client(settings, **options).access_token(scope)
        assert self.replies == []
        return token.value
