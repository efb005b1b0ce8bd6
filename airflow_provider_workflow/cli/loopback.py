"""
Waits on this machine for the browser that comes back from the authorization page (RFC 8252, section 7.3).

Whoever can open a page in the user's browser can send requests here. So only one path, one Host header
and one ``state`` are taken for the answer; whatever else comes is refused and changes nothing.
"""

from __future__ import annotations

import errno
import queue
import socket
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import Any

from airflow_provider_workflow.cli.place import Place
from airflow_provider_workflow.hooks.login import AuthorizationDeniedError, code_of

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
