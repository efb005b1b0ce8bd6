"""``put``: puts messages into an inbox of a running emulator."""

from __future__ import annotations

import ssl
from argparse import Namespace
from contextlib import closing
from typing import Any

from airflow_provider_workflow.cli import output
from airflow_provider_workflow.cli.common import Exit, hook_of, parsed_json
from airflow_provider_workflow.client import tolerant_json
from airflow_provider_workflow.client.errors import NotFoundError, TransportError, WorkflowError
from airflow_provider_workflow.text import escaped

TIMEOUT_SECONDS = 30.0
MAX_ANSWER_BYTES = 16_000_000
NO_INBOX = "Inbox not found."
"""What the emulator says of an inbox that it does not have."""


def put(args: Namespace) -> int:
    """
    Put messages into an inbox of a running emulator.

    :raises TransportError: no server answers at the URL, or it is not an emulator.
    :raises NotFoundError: there is no such inbox.
    """
    payloads = [_json(text) for text in args.payloads]
    url = (args.url or hook_of(args).settings.base_url).rstrip("/")
    body = {"inbox": args.inbox, "payloads": payloads, "create": args.create}
    answer = _post(f"{url}/_emulator/messages", body)
    if answer.get("note"):
        output.note(str(answer["note"]))
    rows = [{"id": message_id} for message_id in answer["ids"]]
    output.show(args.output, answer, *([rows] if rows else []))
    return Exit.FAULT if answer.get("dropped") else Exit.OK


def _json(text: str) -> Any:
    try:
        return parsed_json(text)
    except ValueError as error:
        raise ValueError(f"{text!r} is not JSON ({error}); write a payload like '{{\"n\": 1}}'") from None


def _post(url: str, body: dict[str, Any]) -> dict[str, Any]:
    from airflow_provider_workflow.client.http_messages import Request
    from airflow_provider_workflow.client.requests_transport import RequestsWire

    headers, content = {"Content-Type": "application/json"}, tolerant_json.dumped(body).encode()
    request = Request("POST", url, {}, headers, content, TIMEOUT_SECONDS, proxy=None, limit=MAX_ANSWER_BYTES)
    try:
        with closing(RequestsWire(ssl.create_default_context())) as wire:
            received = wire.exchange(request)
    except TransportError as error:
        text = f"no emulator answers at {url}; start one, or give its URL (--url): {error}"
        raise TransportError(text, sent=False) from None
    not_emulator = TransportError(
        f"the server at {url} is not an emulator, and the real service takes no messages: cause the event in"
        " the app",
        sent=True,
    )
    try:
        answer = received.json()
        problem = answer["errors"][0]["detail"] if "errors" in answer else None
    except (TransportError, LookupError, TypeError):
        raise not_emulator from None
    if problem == NO_INBOX:
        raise NotFoundError(f"no inbox {body['inbox']!r} at {url} (--create makes it)", status=404)
    if received.status == 400 and problem is not None:
        raise WorkflowError(f"nothing was put: {escaped(str(problem))}")
    if not isinstance(answer, dict) or not isinstance(answer.get("ids"), list):
        raise not_emulator
    return answer
