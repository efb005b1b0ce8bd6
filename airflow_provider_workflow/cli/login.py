"""``login``: a user authorizes the application in a browser; his tokens are stored (docs/service.md 14.3)."""

from __future__ import annotations

import errno
import ipaddress
import queue
import secrets
import socket
import sys
import threading
import webbrowser
from argparse import Namespace
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from airflow_provider_workflow import clock
from airflow_provider_workflow.cli import output
from airflow_provider_workflow.cli.doctor_deployment import fernet_finding
from airflow_provider_workflow.cli.doctor_findings import FAILED, WARNING
from airflow_provider_workflow.cli.running import Exit, hook_of
from airflow_provider_workflow.client.arguments import within
from airflow_provider_workflow.client.errors import WorkflowError
from airflow_provider_workflow.hooks import login as rules
from airflow_provider_workflow.hooks.login import AuthorizationDeniedError, code_of
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
        raise LoginError(f"Airflow cannot encrypt: {key.detail}. Fix: {key.fix}.")
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


@dataclass(frozen=True)
class Place:
    """
    Where a redirect URI points to on this machine.

    :param host: name or address, without brackets.
    :param path: as a browser sends it.
    """

    host: str
    port: int
    path: str

    @classmethod
    def of(cls, redirect_uri: str) -> Place | None:
        """The place of a redirect URI; None where it is another machine's, or one of https."""
        parts = urlsplit(redirect_uri)
        host = parts.hostname or ""
        if parts.scheme != "http" or not is_loopback(host):
            return None
        return cls(host, parts.port or 80, parts.path or "/")

    def addresses(self) -> list[str]:
        """The addresses to listen on: a browser may take either for ``localhost``."""
        return ["127.0.0.1", "::1"] if self.host == "localhost" else [self.host]

    def is_named_by(self, header: str) -> bool:
        """Whether a Host header is the one that a browser sends for this redirect URI."""
        name = f"[{self.host}]" if ":" in self.host else self.host
        return header.lower() in {f"{name}:{self.port}", *([name] if self.port == 80 else [])}


def is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


REQUEST_SECONDS = 10.0
"""Browsers open connections ahead and send nothing; such a one is closed after this time."""
ARRIVED = "The answer has arrived here. You may close this page; the terminal says how it went on."
NOT_OURS = "This is not the answer that is waited for. The terminal still waits."
HEADERS = {
    "Content-Type": "text/html; charset=utf-8",
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "Content-Security-Policy": "default-src 'none'",
    "X-Content-Type-Options": "nosniff",
}


class CannotListenError(Exception):
    """Nothing can listen where the redirect URI points to."""


class NoAnswerError(Exception):
    """
    The browser did not come back in time.

    :param refused: requests that came and were not the answer.
    """

    def __init__(self, seconds: float, refused: int) -> None:
        others = f"; {refused} other requests came, none of which was the answer to ours" if refused else ""
        super().__init__(f"the browser did not come back within {seconds:g} s{others}")


class Listener:
    """
    Listens while it is used as a context, and takes one answer.

    :param place: where.
    :param state: that the answer must bring back.
    """

    def __init__(self, place: Place, state: str) -> None:
        self.place = place
        self.refused = 0
        self._state = state
        self._taken = False
        self._lock = threading.Lock()
        self._answers: queue.Queue[str | AuthorizationDeniedError] = queue.Queue()
        self._servers: list[_Server] = []

    def __enter__(self) -> Listener:
        """
        :raises CannotListenError: the port cannot be had on one of the addresses; nothing listens.
        """
        try:
            for address in self.place.addresses():
                self._listen(address)
        except OSError as error:
            self.__exit__()
            raise CannotListenError(
                f"nothing can listen on port {self.place.port} of {address}: {error.strerror}"
            ) from None
        for server in self._servers:
            threading.Thread(target=server.serve_forever, args=(0.1,), daemon=True).start()
            server.serving = True
        return self

    def _listen(self, address: str) -> None:
        try:
            self._servers.append(_Server(address, self))
        except OSError as error:
            # A machine without IPv6 has no second address for localhost, and no browser that takes it.
            absent = error.errno in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)
            if not (absent and self._servers):
                raise

    def __exit__(self, *_: object) -> None:
        for server in self._servers:
            if server.serving:
                server.shutdown()
            server.server_close()
        self._servers = []

    @property
    def addresses(self) -> list[str]:
        """The IP addresses that are listened on."""
        return [str(server.server_address[0]) for server in self._servers]

    def wait(self, seconds: float) -> str:
        """
        The code of the answer.

        :param seconds: how long to wait, above 0.
        :raises AuthorizationDeniedError: the answer is a refusal.
        :raises NoAnswerError: none came.
        """
        try:
            answer = self._answers.get(timeout=seconds)
        except queue.Empty:
            raise NoAnswerError(seconds, self.refused) from None
        if isinstance(answer, AuthorizationDeniedError):
            raise answer
        return answer

    def take(self, host: list[str], target: str, show: Callable[[int, str], None]) -> None:
        """
        Take a request for the answer, or refuse it.

        :param host: its Host headers.
        :param target: its path and query.
        :param show: shows the browser a page; called before the wait ends, as the process may end with it.
        """
        path, _, query = target.partition("?")
        if len(host) != 1 or not self.place.is_named_by(host[0]):
            return self._refuse(400, show)
        if path != self.place.path:
            return self._refuse(404, show)
        try:
            answer: str | AuthorizationDeniedError = code_of(query, self._state)
        except AuthorizationDeniedError as denied:
            answer = denied
        except ValueError:
            return self._refuse(400, show)
        with self._lock:
            again, self._taken = self._taken, True
        if again:
            return self._refuse(400, show)
        try:
            show(200, ARRIVED)
        finally:
            self._answers.put(answer)

    def _refuse(self, status: int, show: Callable[[int, str], None]) -> None:
        self.refused += 1
        show(status, NOT_OURS)


class _Server(ThreadingHTTPServer):
    # A connection on which nothing comes must not keep the answer from being read, nor the process alive.
    daemon_threads = True

    def __init__(self, address: str, listener: Listener) -> None:
        self.address_family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self.listener = listener
        self.serving = False
        super().__init__((address, listener.place.port), _Handler)

    def server_bind(self) -> None:
        TCPServer.server_bind(self)  # the parent's asks the name service who 127.0.0.1 is

    def handle_error(self, *_: Any) -> None:
        """Say nothing: a browser that leaves is no fault, and a traceback could quote its request."""


class _Handler(BaseHTTPRequestHandler):
    timeout = REQUEST_SECONDS
    server: _Server

    def do_GET(self) -> None:
        self.server.listener.take(self.headers.get_all("Host", []), self.path, self._show)

    def send_error(self, code: int, *_: Any, **__: Any) -> None:
        """Refuse what is no GET, or no HTTP, without quoting it."""
        self._show(int(code), NOT_OURS)

    def log_message(self, *_: Any) -> None:
        """Say nothing: the request holds the code."""

    def version_string(self) -> str:
        return "airflow-provider-workflow"

    def _show(self, status: int, text: str) -> None:
        page = f"<!doctype html><title>Log in</title><p>{text}</p>\n".encode()
        self.send_response(status)
        for name, value in {**HEADERS, "Content-Length": str(len(page))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(page)
