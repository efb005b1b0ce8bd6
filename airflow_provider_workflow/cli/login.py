"""``login``: a user authorizes the application in a browser; the tokens are stored (docs/service.md 14.3)."""

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
ELSEWHERE = "With --paste the browser can run on another machine"
ONCE_MORE = "No tokens were stored. Run the command again: a code is valid once, and for 2 minutes."


class LoginError(Exception):
    """The login failed; the text says why, and how to fix it."""

    exit_code = Exit.FAULT


def login(args: Namespace) -> int:
    """
    Log a user in for a connection.

    :param args: ``conn_id``; ``scope``, None for the connection's; ``paste``; ``timeout`` in seconds;
        ``no_browser``; ``prefill``, a list of ``NAME=VALUE``.
    :raises ValueError: an argument, or a field of the connection, is missing or wrong; nothing was sent.
    :raises WorkflowError: the service rejects a request, or Airflow's database cannot be used.
    :raises LoginError: there was no valid redirect.
    """
    within("--timeout", args.timeout, TIMEOUT_SECONDS)
    prefilled = _prefilled(args.prefill or [])
    hook = hook_of(args)
    scope = args.scope or hook.settings.scope
    rules.check_ready(hook.settings, scope)
    _check_store()
    state = secrets.token_urlsafe(STATE_BYTES)
    url = hook.authorization_url(scope=scope, state=state, **prefilled)
    endpoint = None if args.paste else LocalEndpoint.of(hook.settings.redirect_uri)
    if endpoint is None:
        code = _pasted(url, hook.settings.redirect_uri, state)
    else:
        code = _returned(url, endpoint, state, args.timeout, open_browser=not args.no_browser)
    output.note(_stored(hook, code))
    return Exit.OK


def _check_store() -> None:
    """Check, before the user logs in, that the tokens can be stored."""
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


def _pasted(url: str, redirect_uri: str, state: str) -> str:
    """The code from the URL that the user copies from the browser."""
    output.note("Open this URL in a browser, on any machine, and approve:")
    output.write(url)
    output.note(
        f"The browser is then redirected to {redirect_uri}; that page need not exist."
        " Within 2 minutes, paste the whole URL from its address bar, and press Enter:"
    )
    pasted = sys.stdin.readline()
    if not pasted.strip():
        raise LoginError("No URL was pasted. Run the command again.")
    try:
        return rules.code_of(rules.query_of(pasted, redirect_uri), state)
    except ValueError as error:
        raise LoginError(f"The pasted URL cannot be used: {error}. Run the command again.") from None


def _returned(url: str, endpoint: LocalEndpoint, state: str, seconds: int, *, open_browser: bool) -> str:
    """The code that the browser is redirected to this machine with."""
    try:
        with Listener(endpoint, state) as listener:
            output.note("Open this URL in a browser on this machine, and approve:")
            output.write(url)
            if open_browser:
                # In a thread: a text browser blocks until the user quits it.
                threading.Thread(target=webbrowser.open, args=(url,), daemon=True).start()
            output.note(f"Waiting {seconds} s for the redirect of the browser (Ctrl-C cancels) ...")
            return listener.wait(seconds)
    except CannotListenError as error:
        raise LoginError(
            f"Login failed: {error}, the one of redirect_uri. Stop the process that uses it. {ELSEWHERE}."
        ) from None
    except NoAnswerError as error:
        raise LoginError(f"Login failed: {error}. Run the command again. {ELSEWHERE}.") from None


def _stored(hook: WorkflowHook, code: str) -> str:
    """Exchange a code, store the tokens, and return the text of the result."""
    requested_at = clock.now()
    try:
        token = hook.exchange_code(code)
        hook.store_user_tokens(token, requested_at)
    except WorkflowError:
        output.note(ONCE_MORE)
        raise
    granted = token.get("scope")
    return _success_text(hook.settings, granted if isinstance(granted, str) else None)


def _success_text(settings: Settings, granted: str | None) -> str:
    text = (
        f"Logged in. The tokens of the connection {settings.connection_id!r} are stored in the Airflow"
        f" Variable {variable_name(settings.connection_id)!r}; tasks and triggers renew them."
    )
    missing = set() if granted is None else set(settings.scope.split()) - set(granted.split())
    if missing:
        text += f" Warning: the connection's scope needs {' '.join(sorted(missing))}, which was not granted."
    return text


@dataclass(frozen=True)
class LocalEndpoint:
    """
    Host, port and path of a redirect URI on this machine.

    :param host: host name or IP address, without brackets.
    :param path: as a browser sends it.
    """

    host: str
    port: int
    path: str

    @classmethod
    def of(cls, redirect_uri: str) -> LocalEndpoint | None:
        """The endpoint of a redirect URI; None if it is on another machine or uses https."""
        parts = urlsplit(redirect_uri)
        host = parts.hostname or ""
        if parts.scheme != "http" or not is_loopback(host):
            return None
        return cls(host, parts.port or 80, parts.path or "/")

    def addresses(self) -> list[str]:
        """The IP addresses to listen on; a browser may use either for ``localhost``."""
        return ["127.0.0.1", "::1"] if self.host == "localhost" else [self.host]

    def matches_host_header(self, header: str) -> bool:
        """Whether a Host header is the one that a browser sends for this redirect URI."""
        name = f"[{self.host}]" if ":" in self.host else self.host
        return header.lower() in {f"{name}:{self.port}", *([name] if self.port == 80 else [])}


def is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


REQUEST_SECONDS = 10.0
"""Browsers open spare connections and send nothing; these are closed after this time."""
ARRIVED = "The response was received. You can close this page; the terminal shows the result."
NOT_OURS = "This is not the expected response. The terminal is still waiting."
HEADERS = {
    "Content-Type": "text/html; charset=utf-8",
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "Content-Security-Policy": "default-src 'none'",
    "X-Content-Type-Options": "nosniff",
}


class CannotListenError(Exception):
    """It is not possible to listen at the redirect URI."""


class NoAnswerError(Exception):
    """
    The browser was not redirected in time.

    :param refused: number of other requests that were received.
    """

    def __init__(self, seconds: float, refused: int) -> None:
        others = f"; {refused} other requests were received, none with the expected state" if refused else ""
        super().__init__(f"the browser was not redirected within {seconds:g} s{others}")


class Listener:
    """
    A context manager that listens for the redirect, and accepts one.

    :param endpoint: where to listen.
    :param state: the ``state`` that the redirect must have.
    """

    def __init__(self, endpoint: LocalEndpoint, state: str) -> None:
        self.endpoint = endpoint
        self.refused = 0
        self._state = state
        self._taken = False
        self._lock = threading.Lock()
        self._answers: queue.Queue[str | AuthorizationDeniedError] = queue.Queue()
        self._servers: list[_Server] = []

    def __enter__(self) -> Listener:
        """
        :raises CannotListenError: the port is not available on one of the addresses.
        """
        try:
            for address in self.endpoint.addresses():
                self._listen(address)
        except OSError as error:
            self.__exit__()
            raise CannotListenError(
                f"cannot listen on port {self.endpoint.port} of {address}: {error.strerror}"
            ) from None
        for server in self._servers:
            threading.Thread(target=server.serve_forever, args=(0.1,), daemon=True).start()
            server.serving = True
        return self

    def _listen(self, address: str) -> None:
        try:
            self._servers.append(_Server(address, self))
        except OSError as error:
            # Without IPv6 localhost has one address, and browsers use no other.
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
        Wait for the redirect, and return its code.

        :param seconds: maximum time to wait, above 0.
        :raises AuthorizationDeniedError: the user denied the authorization.
        :raises NoAnswerError: there was no redirect in time.
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
        Accept a request as the redirect, or reject it.

        :param host: its Host headers.
        :param target: its path and query.
        :param show: sends a page to the browser; called before ``wait`` returns and the process exits.
        """
        path, _, query = target.partition("?")
        if len(host) != 1 or not self.endpoint.matches_host_header(host[0]):
            return self._refuse(400, show)
        if path != self.endpoint.path:
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
    # An idle connection must neither block the redirect nor keep the process alive.
    daemon_threads = True

    def __init__(self, address: str, listener: Listener) -> None:
        self.address_family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self.listener = listener
        self.serving = False
        super().__init__((address, listener.endpoint.port), _Handler)

    def server_bind(self) -> None:
        TCPServer.server_bind(self)  # HTTPServer.server_bind makes a DNS lookup

    def handle_error(self, *_: Any) -> None:
        """Log nothing: a closed connection is not an error, and a traceback could quote the request."""


class _Handler(BaseHTTPRequestHandler):
    timeout = REQUEST_SECONDS
    server: _Server

    def do_GET(self) -> None:
        self.server.listener.take(self.headers.get_all("Host", []), self.path, self._show)

    def send_error(self, code: int, *_: Any, **__: Any) -> None:
        """Reject everything but GET, without quoting the request."""
        self._show(int(code), NOT_OURS)

    def log_message(self, *_: Any) -> None:
        """Log nothing: the request contains the code."""

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
