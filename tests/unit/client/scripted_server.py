"""A server whose every byte a test decides: for answers that no service of good faith gives."""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import threading
from collections.abc import Callable
from typing import Any, Self
from urllib.parse import urlsplit

from airflow_provider_workflow.client.settings import Settings

Script = bytes | Callable[[socket.socket], None]
TOKEN = {"access_token": "scripted-token", "expires_in": 36000}


def answer(
    status: int = 200, body: Any = b"", headers: dict[str, str] | None = None, *, close: bool = False
) -> bytes:
    """
    Bytes of a whole HTTP answer.

    :param body: bytes as they are; anything else as JSON.
    """
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = {"Content-Length": str(len(content)), **(headers or {})}
    if close:
        lines["Connection"] = "close"
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"HTTP/1.1 {status} Any\r\n{head}\r\n".encode() + content


class ScriptedServer:
    """
    Answers each request with the next of ``answers``; the last one again and again. An empty answer
    cuts the connection, a function is given it and cuts it when it returns; where it gives a whole answer
    that has to say so (``close``), or the client's next request may be sent into the cut. Requests to
    ``/token`` get ``token`` and are kept apart.

    ``greeting`` is sent to whoever connects.

    :param tls: context of the server's side, for https.
    """

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.answers: list[Script] = []
        self.token: Script = answer(200, TOKEN)
        self.requests: list[bytes] = []
        self.token_requests: list[bytes] = []
        self.connections = 0
        self.greeting = b""
        self._tls = tls
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._open: set[socket.socket] = set()

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            # Only this ends the thread that accepts: after close() alone, it would wait for ever.
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        while self._open:
            with contextlib.suppress(OSError):
                self._open.pop().shutdown(socket.SHUT_RDWR)

    def script(self, *answers: Script, token: Script | None = None) -> None:
        """Begin anew: forget the requests, and answer the next ones with these."""
        self.answers = list(answers)
        self.token = answer(200, TOKEN) if token is None else token
        self.requests = []
        self.token_requests = []

    @property
    def url(self) -> str:
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self.port}"

    def settings(self, **changes: Any) -> Settings:
        return Settings(
            **{
                "base_url": self.url,
                "client_id": "an-id",
                "client_secret": "a-secret",
                "token_url": f"{self.url}/token",
                "timeout": 5.0,
                "verify": self._tls is not None,  # loading the CA certificates takes longer than most tests
                **changes,
            }
        )

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        accepted = connection
        with contextlib.suppress(OSError), connection:
            self._open.add(accepted)
            try:
                if self._tls is not None:
                    connection = self._tls.wrap_socket(connection, server_side=True)
                connection.sendall(self.greeting)
                while request := _read(connection):
                    reply = self.reply(request)
                    if callable(reply):
                        reply(connection)
                        return
                    connection.sendall(reply)
                    if not reply or b"Connection: close" in reply:
                        return
            finally:
                self._open.discard(accepted)
                connection.close()

    def reply(self, request: bytes) -> Script:
        """Take down a request, and say how it is answered."""
        if urlsplit(request.split(b" ", 2)[1]).path == b"/token":
            self.token_requests.append(request)
            return self.token
        self.requests.append(request)
        return self.answers[min(len(self.requests), len(self.answers)) - 1]


def _read(connection: socket.socket) -> bytes:
    """A request, whole; nothing when the client has left."""
    data = b""
    while b"\r\n\r\n" not in data:
        chunk = connection.recv(65536)
        if not chunk:
            return b""
        data += chunk
    head, _, body = data.partition(b"\r\n\r\n")
    for line in head.split(b"\r\n"):
        if line.lower().startswith(b"content-length:"):
            length = int(line.split(b":")[1])
            while len(body) < length:
                body += connection.recv(65536)
    return head + b"\r\n\r\n" + body
