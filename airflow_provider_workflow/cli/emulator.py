"""``emulator`` and ``put``: run the emulator, and put messages into its inboxes."""

from __future__ import annotations

import json
from argparse import Namespace
from typing import Any

from airflow_provider_workflow.cli import output
from airflow_provider_workflow.cli.running import Exit, hook_of
from airflow_provider_workflow.client.errors import NotFoundError, TransportError, WorkflowError

TIMEOUT_SECONDS = 30.0


def serve(args: Namespace) -> int:
    """Run the emulator until it is stopped."""
    from airflow_provider_workflow.emulator.command_line import serve as serve_emulator

    return serve_emulator(args, output.write)


def put(args: Namespace) -> int:
    """
    Put messages into an inbox of a running emulator.

    :raises TransportError: no server answers at the URL, or it is not an emulator.
    :raises NotFoundError: there is no such inbox.
    """
    payloads = [_json(text) for text in args.payloads]
    url = (args.url or hook_of(args).settings.base_url).rstrip("/")
    body = {"inbox": args.inbox, "payloads": payloads, "create": args.create}
    answer = _posted(f"{url}/_emulator/messages", body)
    if answer.get("note"):
        output.note(str(answer["note"]))
    output.show(args.output, answer, [{"id": each} for each in answer["ids"]])
    return Exit.FAULT if answer.get("dropped") else Exit.OK


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise ValueError(f"{text!r} is not JSON ({error}); write a payload like '{{\"n\": 1}}'") from None


def _posted(url: str, body: dict[str, Any]) -> dict[str, Any]:
    import requests

    try:
        answer = requests.post(url, data=json.dumps(body), timeout=TIMEOUT_SECONDS)
    except requests.RequestException as error:
        raise TransportError(
            f"no emulator answers at {url} ({type(error).__name__}); start one, or give its URL (--url)",
            sent=False,
        ) from None
    try:
        found = answer.json()
        problem = found["errors"][0]["detail"] if "errors" in found else None
    except (ValueError, LookupError, TypeError):
        raise TransportError(f"the server at {url} is not an emulator", sent=True) from None
    if answer.status_code == 404:
        raise NotFoundError(f"no inbox {body['inbox']!r} at {url}: {problem}", status=404)
    if problem is not None or not isinstance(found, dict) or "ids" not in found:
        raise WorkflowError(
            f"nothing was put ({answer.status_code}): {problem or 'the server is not an emulator'}"
        )
    return found
