"""``login``: a user authorizes the application in a browser; his tokens are stored (docs/service.md 14.3)."""

from __future__ import annotations

import secrets
import sys
import threading
import webbrowser
from argparse import Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING

from airflow_provider_workflow import clock
from airflow_provider_workflow.cli import output
from airflow_provider_workflow.cli.connecting import hook_of
from airflow_provider_workflow.cli.doctor_airflow import fernet_finding
from airflow_provider_workflow.cli.doctor_findings import FAILED, WARNING
from airflow_provider_workflow.cli.loopback import CannotListenError, Listener, NoAnswerError
from airflow_provider_workflow.cli.place import Place
from airflow_provider_workflow.cli.running import Exit
from airflow_provider_workflow.client.arguments import within
from airflow_provider_workflow.client.errors import WorkflowError
from airflow_provider_workflow.hooks import login as rules
from airflow_provider_workflow.hooks.user_tokens import variable_name

if TYPE_CHECKING:
    from airflow_provider_workflow.client.settings import Settings
    from airflow_provider_workflow.hooks.workflow import WorkflowHook

STATE_BYTES = 32
TIMEOUT_SECONDS = (1, 3600)
ELSEWHERE = "With --paste the browser may run on another machine"
ONCE_MORE = "Nothing was stored. Run the command again: a code is valid for 2 minutes, and once."


class LoginError(Exception):
    """Nobody was logged in; the text says why, and what to do."""

    exit_code = Exit.FAULT


def login(args: Namespace) -> int:
    """
    Log a user in for a connection.

    :param args: ``conn_id``; ``scope``, None for the connection's; ``paste``; ``timeout`` in seconds;
        ``no_browser``; ``prefill``, a list of ``NAME=VALUE``.
    :raises ValueError: an argument, or a field of the connection, is missing or wrong; nothing was sent.
    :raises WorkflowError: the service refused, or Airflow's database does.
    :raises LoginError: no answer came back.
    """
    within("--timeout", args.timeout, TIMEOUT_SECONDS)
    prefilled = _prefilled(args.prefill or [])
    hook = hook_of(args)
    scope = args.scope or hook.settings.scope
    rules.check_ready(hook.settings, scope)
    _check_store()
    state = secrets.token_urlsafe(STATE_BYTES)
    address = hook.authorization_url(scope=scope, state=state, **prefilled)
    place = None if args.paste else Place.of(hook.settings.redirect_uri)
    if place is None:
        code = _pasted(address, hook.settings.redirect_uri, state)
    else:
        code = _returned(address, place, state, args.timeout, open_browser=not args.no_browser)
    output.note(_stored(hook, code))
    return Exit.OK


def _check_store() -> None:
    """Make sure, before the user is bothered, that what he brings back can be kept."""
    rules.check_store()
    key = fernet_finding()
    if key.status == FAILED:
        raise LoginError(f"Airflow cannot encrypt: {key.detail}. Cure: {key.cure}.")
    if key.status == WARNING:
        output.note(f"Warning: Airflow's Fernet key is {key.detail}.")


def _prefilled(pairs: Sequence[str]) -> dict[str, str]:
    given = dict(pair.partition("=")[::2] for pair in pairs)
    without_value = {pair for pair in pairs if "=" not in pair}
    if unknown := sorted(set(given) - set(rules.PREFILLED) | without_value):
        raise ValueError(
            f"--prefill {unknown[0]}: must be NAME=VALUE, NAME one of {', '.join(rules.PREFILLED)}"
        )
    return given


def _pasted(address: str, redirect_uri: str, state: str) -> str:
    """The code from the address that the user copies out of his browser."""
    output.note("Open this address in a browser, on any machine, and approve:")
    output.write(address)
    output.note(
        f"The browser is then sent to {redirect_uri}, whether or not there is a page."
        " Within 2 minutes, paste the whole address that it shows, and press Enter:"
    )
    pasted = sys.stdin.readline()
    if not pasted.strip():
        raise LoginError("No address was pasted. Run the command again.")
    try:
        return rules.code_of(rules.query_of(pasted, redirect_uri), state)
    except ValueError as error:
        raise LoginError(f"The pasted address cannot be used: {error}. Run the command again.") from None


def _returned(address: str, place: Place, state: str, seconds: int, *, open_browser: bool) -> str:
    """The code that the browser brings back to this machine."""
    try:
        with Listener(place, state) as listener:
            output.note("Open this address in a browser on this machine, and approve:")
            output.write(address)
            if open_browser:
                # In a thread: a browser of the terminal returns only when it is left.
                threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
            output.note(f"Waiting {seconds} s for the browser to come back (Ctrl-C ends it) ...")
            return listener.wait(seconds)
    except CannotListenError as error:
        raise LoginError(
            f"Nobody was logged in: {error}; redirect_uri leads there. End what uses it. {ELSEWHERE}."
        ) from None
    except NoAnswerError as error:
        raise LoginError(f"Nobody was logged in: {error}. Run the command again. {ELSEWHERE}.") from None


def _stored(hook: WorkflowHook, code: str) -> str:
    """Exchange a code at once, store the tokens, and say so."""
    asked_at = clock.now()
    try:
        token = hook.exchange_code(code)
        hook.store_user_tokens(token, asked_at)
    except WorkflowError:
        output.note(ONCE_MORE)
        raise
    granted = token.get("scope")
    return _told(hook.settings, granted if isinstance(granted, str) else None)


def _told(settings: Settings, granted: str | None) -> str:
    text = (
        f"Logged in. The tokens of the connection {settings.connection_id!r} are stored, encrypted, in the"
        f" Airflow Variable {variable_name(settings.connection_id)!r}; tasks and triggers renew them."
    )
    missing = set() if granted is None else set(settings.scope.split()) - set(granted.split())
    if missing:
        text += f" Warning: the connection's scope needs {' '.join(sorted(missing))}, which was not granted."
    return text
