"""A proxy that notes who was to be reached, and reaches one server only, whatever was asked for."""

from __future__ import annotations

import contextlib
import socket
import threading


class RecordingProxy:
    """
    :param target: port of the server on this machine to which everything is passed on.
    :param refusal: status line to refuse with, such as ``407 Proxy Authentication Required``; None passes on.
    """

    def __init__(self, target: int, refusal: str | None = None) -> None:
        self.target = target
        self.refusal = refusal
        self.heads: list[bytes] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def asked_for(self) -> list[str]:
        return [head.split(b" ")[0].decode() + " " + head.split(b" ")[1].decode() for head in self.heads]

    def close(self) -> None:
        with contextlib.suppress(OSError):
            # Only this ends the thread that accepts: after close() alone, it would wait for ever.
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with (
            contextlib.suppress(OSError),
            client,
            socket.create_connection(("127.0.0.1", self.target)) as server,
        ):
            head = client.recv(65536)
            self.heads.append(head)
            if self.refusal:
                client.sendall(f"HTTP/1.1 {self.refusal}\r\nContent-Length: 0\r\n\r\n".encode())
                return
            if head.startswith(b"CONNECT "):
                client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            else:
                server.sendall(head)
            threading.Thread(target=self._pass_on, args=(server, client), daemon=True).start()
            self._pass_on(client, server)

    def _pass_on(self, source: socket.socket, drain: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                drain.sendall(data)
            drain.shutdown(socket.SHUT_RDWR)
