"""
Connections for ``requests`` with one time limit for everything, which read answers as ``aiohttp`` does.

``urllib3`` limits each wait for data, so a head of one byte a second has no limit. ``http.client`` takes any
interim answer but 100 for the final one, stops at 100 headers, and accepts lengths and chunks that others
refuse. Tasks and triggers must agree: a row of ``tests/unit/client/test_http_forms.py`` for each form.
"""

from __future__ import annotations

import io
import re
import socket
import ssl
import time  # real time: as that of sockets
from dataclasses import dataclass
from http.client import HTTPException, HTTPMessage, HTTPResponse
from typing import Any

from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import ConnectTimeoutError, HTTPError, NameResolutionError, NewConnectionError
from urllib3.util.connection import allowed_gai_family
from urllib3.util.ssltransport import SSLTransport

from airflow_provider_workflow.client.answers import CERTIFICATE, CONNECTION, PROXY, TLS
from airflow_provider_workflow.client.http_messages import MAX_HEADERS, MAX_LINE_BYTES

_STATUS_LINE = re.compile(rb"HTTP/(0\.9|1\.[01]|2\.0) ([0-9]{3})(?: ([^\r\n]*))?\r?\n")
# Possessive, so that a line of many blanks takes no time that grows with their square or cube.
_HEADER = re.compile(rb"[ \t]*+([\w!#$%&'*+.^`|~-]++):([^\0\r\n]*+)\r?\n")
_CONTINUATION = re.compile(rb"[ \t]++([^\0\r\n]*+)\r?\n")
_CHUNK = re.compile(rb"0*([0-9a-fA-F]{1,16})[ \t]*(?:;[^\0-\x08\x0a-\x1f\x7f]*)?\r\n")
_EMPTY = (b"\r\n", b"\n")


@dataclass
class TimeLimit:
    """The end of a request, by ``time.monotonic``; shared by the connections of one client."""

    ends_at: float = 0.0

    def start(self, seconds: float) -> None:
        """Begin a request that may take so long."""
        self.ends_at = time.monotonic() + seconds

    def left(self) -> float:
        """
        Seconds until the end, above 0.

        :raises TimeoutError: it has passed.
        """
        seconds = self.ends_at - time.monotonic()
        if seconds <= 0:
            raise TimeoutError("the time limit of the request has passed")
        return seconds


class NotConnectedError(Exception):
    """
    There is no connection, so no request was sent; the cause says why.

    ``urllib3`` and ``requests`` do not know it, and so pass it on as it is.

    :param stage: what failed (see ``no_answer``).
    """

    def __init__(self, stage: str) -> None:
        super().__init__(stage)
        self.stage = stage


class _Limited:
    """
    What connections with and without TLS have in common.

    :param limit: for the request that is sent; its owner sets it before each one.
    """

    sock: Any
    proxy: Any
    timeout: Any
    _dns_host: str
    _is_reached = False
    """Whether this is a connection to the service, or a tunnel to it, which only lacks TLS."""

    def __init__(self, *args: Any, limit: TimeLimit, **options: Any) -> None:
        super().__init__(*args, **options)
        self.limit = limit

    def connect(self) -> None:
        """
        Connect, through the tunnel of a proxy if there is one, and by TLS if the URL says so.

        :raises NotConnectedError: that failed.
        """
        parent: Any = super()
        self._is_reached = False
        try:
            parent.connect()
        except (HTTPError, HTTPException, OSError, ValueError) as error:
            if isinstance(error, ssl.SSLCertVerificationError):
                stage = CERTIFICATE
            elif self._is_reached:
                stage = TLS
            else:
                stage = CONNECTION if self.proxy is None else PROXY
            raise NotConnectedError(stage) from error

    def _new_conn(self) -> socket.socket:
        """
        Connect to one of the host's addresses. They share the time that is left, so that one that does not
        answer leaves time for the others; ``urllib3`` would have the limit for each of them.
        """
        connection: Any = self
        host = self._dns_host
        try:
            addresses = socket.getaddrinfo(host, connection.port, allowed_gai_family(), socket.SOCK_STREAM)
        except socket.gaierror as error:
            raise NameResolutionError(host, connection, error) from error
        fault: Exception = NewConnectionError(connection, "the host has no address")
        try:
            for number, (*_, address) in enumerate(addresses):
                seconds = self.limit.left() / (len(addresses) - number)
                self._dns_host, self.timeout = str(address[0]), seconds
                try:
                    sock: socket.socket = super()._new_conn()  # type: ignore[misc]
                except (NewConnectionError, ConnectTimeoutError) as error:
                    fault = error
                    continue
                sock.settimeout(self.limit.left())  # of the handshake
                self._is_reached = self.proxy is None
                return sock
        except TimeoutError as error:
            raise ConnectTimeoutError(connection, "no connection in time") from error
        finally:
            self._dns_host = host
        raise fault

    def _tunnel(self) -> None:
        super()._tunnel()  # type: ignore[misc]
        self._is_reached = True
        self.sock.settimeout(self.limit.left())  # of the handshake

    def send(self, data: Any) -> None:
        """Send a part of a request."""
        if self.sock is not None:
            self.sock.settimeout(self.limit.left())
        parent: Any = super()
        parent.send(data)

    def response_class(self, sock: Any, *args: Any, **options: Any) -> Response:
        """The answer to a request, or to ``CONNECT``."""
        return Response(sock, *args, connection=self, **options)


class Connection(_Limited, HTTPConnection):  # type: ignore[misc]
    """A connection without TLS."""


class SecureConnection(_Limited, HTTPSConnection):  # type: ignore[misc]
    """A connection with TLS."""


class Response(HTTPResponse):
    """
    An answer, which is read within a time limit, its body by ``read1`` alone. Interim answers are read over.

    ``begin`` and ``read1`` raise ``HTTPException`` if it is incomplete or not valid HTTP for ``aiohttp``.
    """

    length: int | None
    """Bytes that are left of the body or of the current chunk; None: until the connection ends."""

    def __init__(self, sock: Any, *args: Any, connection: Any, **options: Any) -> None:
        super().__init__(sock, *args, **options)
        self._connection = connection
        self._is_in_chunks = False
        self._received = _Received(sock, self.fp.detach(), connection.limit)
        self.fp = io.BufferedReader(self._received)

    def begin(self) -> None:
        """Read the head."""
        if self.headers is not None:
            return
        self._read_head()
        while 100 <= self.status < 200 and self.status != 101:
            if self.will_close:
                raise HTTPException("an interim answer ends the connection")
            self._read_head()
        codings = ",".join(self.headers.get_all("transfer-encoding", ()))
        lengths = self.headers.get_all("content-length", ())
        self.chunked = codings.rpartition(",")[2].strip(" \t").lower() == "chunked"
        self.length = 0 if self.chunked else None
        if lengths:
            if codings or len(lengths) > 1 or not re.fullmatch("[0-9]{1,19}", lengths[0]):
                raise HTTPException("the length of the body is not certain")
            self.length = int(lengths[0])
        if self.status in (101, 204, 304):
            self.chunked, self.length = False, 0
        self.will_close = self.will_close or self.status < 200 or self.length is None

    def _read_head(self) -> None:
        line = self._line()
        while line in _EMPTY:
            line = self._line()
        match = _STATUS_LINE.fullmatch(line)
        if match is None:
            raise HTTPException("the status line is invalid")
        self.version = 11 if match[1] == b"1.1" else 10
        self.code = self.status = int(match[2])
        self.reason = (match[3] or b"").decode("latin-1").strip()
        self.headers = self.msg = self._fields()
        self.will_close = self._check_close()  # type: ignore[attr-defined]

    def _fields(self) -> HTTPMessage:
        """Headers, or trailers, up to an empty line."""
        fields: list[list[bytes]] = []
        for _ in range(MAX_HEADERS + 1):
            line = self._line()
            if line in _EMPTY:
                break
            if fields and (continuation := _CONTINUATION.fullmatch(line)):
                fields[-1].append(continuation[1].strip(b" \t"))
            elif match := _HEADER.fullmatch(line):
                fields.append([match[1], match[2].strip(b" \t")])
            else:
                raise HTTPException("a header is invalid")
        else:
            raise HTTPException("too many headers")
        message = HTTPMessage()
        for name, *parts in fields:
            message[name.decode("latin-1")] = b" ".join(parts).strip().decode("latin-1")
        return message

    def _line(self) -> bytes:
        line = self.fp.readline(MAX_LINE_BYTES + 1)
        if not line.endswith(b"\n"):
            raise HTTPException("a line is incomplete or too long")
        return line

    def read1(self, n: int = -1) -> bytes:
        """The next bytes of the body; b"" at its end."""
        if self.fp is None:
            return b""
        if self.chunked and self.length == 0:
            self._begin_chunk()
        if self.length == 0:
            self._end()
            return b""
        size = n if self.length is None else self.length if n < 0 else min(n, self.length)
        data = self.fp.read1(size)
        if not data:
            if self.length is not None:
                raise HTTPException("the body is incomplete")
            self.close()
        elif self.length is not None:
            self.length -= len(data)
            if self.length == 0 and not self.chunked:
                self._end()
        return data

    def _begin_chunk(self) -> None:
        if self._is_in_chunks and self._line() != b"\r\n":
            raise HTTPException("a chunk is longer than its size")
        self._is_in_chunks = True
        match = _CHUNK.fullmatch(self._line())
        if match is None:
            raise HTTPException("the size of a chunk is invalid")
        self.length = int(match[1], 16)
        if self.length == 0:
            self._fields()

    def _end(self) -> None:
        """
        Close the answer, which is complete.

        :raises HTTPException: it is followed by something that is no further answer.
        """
        self._received.is_over = True
        surplus = self.fp.peek(1).lstrip(b"\r\n")
        is_more_in_tls = self._received.is_more_in_tls()
        self.close()
        if surplus or is_more_in_tls:
            self._connection.close()
        if surplus and not surplus.startswith(b"HTTP/"):
            raise HTTPException("more than the answer was received")


class _Received(io.RawIOBase):
    """
    The bytes that a socket receives within a time limit.

    ``is_over``: whether to receive no more, so that a buffer has only what was received before.
    """

    def __init__(self, sock: Any, raw: Any, limit: TimeLimit) -> None:
        self._sock, self._raw, self._limit = sock, raw, limit
        self.is_over = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        if self.is_over:
            return None
        self._sock.settimeout(self._limit.left())
        received: int | None = self._raw.readinto(buffer)
        return received

    def is_more_in_tls(self) -> bool:
        """
        Whether TLS has received more than was read.

        ``urllib3`` would use the connection again, as it looks only for bytes that the socket still has.
        """
        sock = self._sock
        if isinstance(sock, SSLTransport):  # within the TLS of a proxy
            of_proxy: Any = sock.socket
            return bool(sock.sslobj.pending() or sock.incoming.pending or of_proxy.pending())
        return isinstance(sock, ssl.SSLSocket) and sock.pending() > 0

    def close(self) -> None:
        self._raw.close()
        super().close()
