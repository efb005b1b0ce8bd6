"""
Two things that ``requests`` does not tell: a total time limit, and whether a request left at all.

Its own time limits count anew with every byte, so an answer that trickles for ever holds a task for
ever. Here the limit is set on the socket before each step, so no thread and no timer is needed. And
its exceptions do not say whether a connection stood when they happened, which decides whether a
lease may be asked for again.

The limit is kept in real time, not in that of ``clock``: the kernel waits for the bytes of a socket, and it
knows no other.
"""

from __future__ import annotations

import io
import socket
import threading
import time
from http.client import HTTPResponse, RemoteDisconnected
from typing import Any

from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.poolmanager import PoolManager


class _Attempt(threading.local):
    deadline = 0.0
    sent = False


_current = _Attempt()


def sent() -> bool:
    """Whether this thread's latest attempt came so far that the service may have taken its request."""
    return _current.sent


def remaining() -> float:
    """
    Seconds left of this thread's attempt.

    :raises TimeoutError: none are left.
    """
    seconds = _current.deadline - time.monotonic()
    if seconds <= 0:
        raise TimeoutError("the attempt took longer than its timeout")
    return seconds


class _LimitedReader(io.RawIOBase):
    """Reads a socket, each time with what is left of the attempt as its time limit."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._raw: Any = sock.makefile("rb", buffering=0)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        self._sock.settimeout(remaining())
        count: int | None = self._raw.readinto(buffer)
        return count

    def close(self) -> None:
        self._raw.close()
        super().close()


class _Socket:
    """What ``HTTPResponse`` wants of a socket: a file to read from."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock

    def makefile(self, *_: Any, **__: Any) -> io.BufferedReader:
        return io.BufferedReader(_LimitedReader(self._sock))


class _Head:
    """
    Where an answer's status line and headers are read from.

    To ``http.client`` headers that break off are all there are, so that half an answer would pass for
    a whole one without a body.
    """

    def __init__(self, reader: Any) -> None:
        self._reader = reader

    def readline(self, limit: int) -> bytes:
        line: bytes = self._reader.readline(limit)
        if len(line) < limit and not line.endswith(b"\n"):
            raise RemoteDisconnected("the connection ended before the headers did")
        return line

    def close(self) -> None:
        self._reader.close()


class _Response(HTTPResponse):
    def __init__(self, sock: socket.socket, *args: Any, **kwargs: Any) -> None:
        super().__init__(_Socket(sock), *args, **kwargs)  # type: ignore[arg-type]

    def begin(self) -> None:
        reader = self.fp
        self.fp = _Head(reader)  # type: ignore[assignment]
        try:
            super().begin()
        finally:
            if self.fp is not None:
                self.fp = reader


class _Limited:
    """What both kinds of connection do within the time limit of the attempt."""

    sock: Any
    timeout: float | None

    def connect(self) -> None:
        self.timeout = remaining()
        super().connect()  # type: ignore[misc]

    def request(self, *args: Any, **kwargs: Any) -> None:
        if self.sock is None:
            self.connect()
        self.timeout = remaining()
        _current.sent = True
        super().request(*args, **kwargs)  # type: ignore[misc]


class _Connection(_Limited, HTTPConnection):
    response_class = _Response


class _SecureConnection(_Limited, HTTPSConnection):
    response_class = _Response


class _Pool(HTTPConnectionPool):
    ConnectionCls = _Connection


class _SecurePool(HTTPSConnectionPool):
    ConnectionCls = _SecureConnection

    def _validate_conn(self, conn: Any) -> None:
        # As the base class does, but for its warning with each request that no certificate is verified:
        # that is said once, where the connection is read (``Settings.ca_file``).
        if conn.sock is None:
            conn.connect()


class DeadlineAdapter(HTTPAdapter):
    """Sends with a ``timeout`` that is a total, from connecting to the last byte."""

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        super().init_poolmanager(*args, **kwargs)
        self._limit(self.poolmanager)

    def proxy_manager_for(self, *args: Any, **kwargs: Any) -> Any:
        manager = super().proxy_manager_for(*args, **kwargs)
        self._limit(manager)
        return manager

    def send(self, *args: Any, **kwargs: Any) -> Any:
        _current.deadline = time.monotonic() + kwargs["timeout"]
        _current.sent = False
        return super().send(*args, **kwargs)

    @staticmethod
    def _limit(manager: PoolManager) -> None:
        manager.pool_classes_by_scheme = {"http": _Pool, "https": _SecurePool}
