"""``login``, ``token``, ``guess``, ``templates``, and ``put``, for tests with the emulator."""

from __future__ import annotations

import hmac
import secrets
import ssl
import sys
from argparse import Namespace
from contextlib import closing
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qs, urlsplit

from airflow_provider_workflow import clock
from airflow_provider_workflow.cli import output
from airflow_provider_workflow.cli.common import Exit, hook_of, parsed_json
from airflow_provider_workflow.client import any_json
from airflow_provider_workflow.client.api import token_of
from airflow_provider_workflow.client.errors import (
    ConfigurationError,
    NotFoundError,
    TransportError,
    WorkflowError,
)
from airflow_provider_workflow.client.settings import USER_GRANT, Settings
from airflow_provider_workflow.hooks.user_tokens import variable_name
from airflow_provider_workflow.text import one_line, plain

SHOWN_CHARACTERS = 4
"""The last characters of a token: enough to tell two apart."""
TIMEOUT_SECONDS = 30.0
NO_INBOX = "Inbox not found."
"""What the emulator says of an inbox that it does not have."""


def guess(args: Namespace) -> int:
    """
    Guess a workflow from a text.

    :raises GuessRejectedError: the text describes no workflow.
    """
    answer = hook_of(args).guess(args.text)
    steps = [
        {
            "title": guessed["step"].get("title"),
            "app": guessed["step"]["app"],
            "api": guessed["step"]["api"],
            "alternatives": ", ".join(
                str(other.get("title") or other.get("app")) for other in guessed.get("alternatives") or []
            ),
        }
        for guessed in answer["steps"]
    ]
    head = {"title": answer["title"], "prefilled_url": answer["prefilled_url"]}
    output.show(args.output, answer, output.fields(head), steps)
    return Exit.OK


def templates(args: Namespace) -> int:
    """List workflow templates."""
    apps = None if args.apps is None else [app.strip() for app in args.apps.split(",")]
    listed = hook_of(args).list_templates(apps, args.limit)
    columns = ("id", "title", "status")
    rows = [{name: template.get(name) for name in columns} for template in listed]
    output.show(args.output, listed, rows)
    return Exit.OK


def token(args: Namespace) -> int:
    """
    Get an access token, and show it masked; unmasked with ``--show``.

    :raises AuthenticationError: the service issues no token.
    """
    answer = hook_of(args).access_token(args.scope)
    value, _, lifetime = token_of(answer, 0)
    if args.show:
        output.write(value)
        return Exit.OK
    seconds = int(lifetime)
    ends = datetime.fromtimestamp(clock.now() + seconds, UTC)
    # Nothing of a short token is shown: it would reveal too much of it.
    end = value[-SHOWN_CHARACTERS:] if len(value) >= 8 * SHOWN_CHARACTERS else ""
    result = {
        "access_token": output.MASK + end,
        "expires_in": seconds,
        "expires_at": ends.isoformat(timespec="seconds"),
        "scope": answer.get("scope") or args.scope,
    }
    output.show(args.output, result, output.fields(result))
    return Exit.OK


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
    from airflow_provider_workflow.client.over_requests import RequestsWire
    from airflow_provider_workflow.client.wire import Request

    headers, content = {"Content-Type": "application/json"}, any_json.dumped(body).encode()
    request = Request("POST", url, {}, headers, content, TIMEOUT_SECONDS, proxy=None, limit=16_000_000)
    try:
        with closing(RequestsWire(ssl.create_default_context())) as wire:
            received = wire.exchange(request)
    except TransportError as error:
        text = f"no emulator answers at {url}; start one, or give its URL (--url): {error}"
        raise TransportError(text, sent=False) from None
    not_emulator = TransportError(f"the server at {url} is not an emulator", sent=True)
    try:
        answer = received.json()
        problem = answer["errors"][0]["detail"] if "errors" in answer else None
    except (TransportError, LookupError, TypeError):
        raise not_emulator from None
    if problem == NO_INBOX:
        raise NotFoundError(f"no inbox {body['inbox']!r} at {url} (--create makes it)", status=404)
    if received.status == 400 and problem is not None:
        raise WorkflowError(f"nothing was put: {plain(str(problem))}")
    if not isinstance(answer, dict) or not isinstance(answer.get("ids"), list):
        raise not_emulator
    return answer


# A user authorizes the application in a browser (docs/service.md 10 and 14.3).


def login(args: Namespace) -> int:
    """
    Log a user in for a connection.

    :param args: ``conn_id``; ``scope``, None for the connection's.
    :raises ConfigurationError: a field of the connection is missing or wrong.
    :raises WorkflowError: no valid URL was pasted, or the service or the database fails.
    """
    hook = hook_of(args)
    scope = args.scope or hook.settings.scope
    if problems := _problems(hook.settings, scope):
        raise ConfigurationError(problems)
    state = secrets.token_urlsafe(32)
    output.note("Open this URL in a browser, on any machine, and approve:")
    output.write(hook.authorization_url(scope=scope, state=state))
    output.note(
        f"The browser is then redirected to {hook.settings.redirect_uri}; that page need not exist."
        " Within 2 minutes, paste the whole URL from its address bar, and press Enter:"
    )
    code = _code_of(sys.stdin.readline().strip(), state)
    try:
        token = hook.exchange_code(code)
        hook.store_user_tokens(token)
    except WorkflowError:
        output.note("No tokens were stored. Run the command again: a code is valid once.")
        raise
    connection_id, granted = hook.settings.connection_id, token.get("scope")
    output.note(
        f"Logged in. The tokens of the connection {connection_id!r} are stored in the Airflow Variable"
        f" {variable_name(connection_id)!r}; tasks and triggers renew them."
    )
    needed = set(hook.settings.scope.split())
    if isinstance(granted, str) and (missing := needed - set(granted.split())):
        output.note(
            f"Warning: the connection's scope needs {' '.join(sorted(missing))}, which was not granted."
        )
    return Exit.OK


def _problems(settings: Settings, scope: str) -> list[str]:
    """What keeps a user from logging in, with these scopes."""
    problems = []
    if settings.grant != USER_GRANT:
        problems.append(f"grant is {settings.grant} (set it to {USER_GRANT} to use a user's tokens)")
    if not settings.auth_url:
        problems.append("auth_url is missing (set the base URL of the authorization page in Extra)")
    if not settings.redirect_uri:
        problems.append("redirect_uri is missing (set one of those configured for your application in Extra)")
    if missing := set(settings.scope.split()) - set(scope.split()):
        problems.append(
            f"scope needs {' '.join(sorted(missing))}, which the user is not asked to grant"
            " (request it too, or change the connection's scope)"
        )
    return problems


def _code_of(url: str, state: str) -> str:
    """
    The code in the URL of a redirect, after a check of its ``state`` (docs/service.md 14.3).

    :raises WorkflowError: it is invalid, belongs to another login, or the authorization was denied.
    """
    if not url:
        raise WorkflowError("No URL was pasted. Run the command again.")
    try:
        fields = parse_qs(urlsplit(url).query, keep_blank_values=True, max_num_fields=50)
        if any(len(fields.get(name, [])) > 1 for name in ("state", "code", "error")):
            raise ValueError("the URL has state, code or error more than once")
        if not hmac.compare_digest(fields.get("state", [""])[0].encode(), state.encode()):
            raise ValueError("state is not the one that was sent: the redirect does not belong to this login")
        if "error" not in fields and not any(fields.get("code", [])):
            raise ValueError("the URL has no code")
    except ValueError as error:
        text = f"The pasted URL cannot be used: {error}."
        raise WorkflowError(f"{text} Run the command again.") from None
    if "error" in fields:
        reason = one_line(fields.get("error_description", ["no reason"])[0])
        code = one_line(fields["error"][0])
        raise WorkflowError(f"The authorization page answered {code!r}: {reason}")
    return fields["code"][0]
