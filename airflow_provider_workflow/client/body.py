"""The bodies of answers while they are received, for both transports."""

from __future__ import annotations

import errno
import zlib
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from airflow_provider_workflow.client.wire import LONGEST_ERROR, plain

PIECE = 256_000
"""Bytes of a body that are decompressed at once."""


class Body:
    """
    The body of an answer while it is received: decompressed, and cut at a limit.

    The libraries decompress without a limit, and accept different encodings.

    :param status: of the answer; a body other than that of a 2xx has at most ``LONGEST_ERROR`` bytes.
    :param encoding: the header ``Content-Encoding``, or None.
    :param limit: maximum number of bytes after decompression.
    """

    def __init__(self, status: int, encoding: str | None, limit: int) -> None:
        self.is_cut = False
        self._free = limit if 200 <= status < 300 else min(limit, LONGEST_ERROR)
        self._encoding = (encoding or "identity").strip().lower()
        self._pieces: list[bytes] = []
        self._inflater: Any = None

    def add(self, chunk: bytes) -> Iterator[None]:
        """
        Add received bytes; yields after each piece, so that an event loop can run other tasks meanwhile.

        :raises OSError: they cannot be decompressed.
        """
        if self._encoding == "identity":
            self._append(chunk)
            return
        while chunk and not self.is_cut:
            if self._inflater is None or self._inflater.eof:
                self._inflater = _inflater(self._encoding, chunk)
            self._append(_inflated(self._inflater, chunk, self._encoding))
            chunk = self._inflater.unused_data or self._inflater.unconsumed_tail
            yield

    def _append(self, piece: bytes) -> None:
        self.is_cut = len(piece) > self._free
        self._pieces.append(piece[: self._free])
        self._free -= len(self._pieces[-1])

    def received(self) -> bytes:
        """
        The bytes that were received, up to the limit.

        :raises OSError: the compressed data ended early.
        """
        if self._inflater is not None and not self._inflater.eof and not self.is_cut:
            raise _undecodable(self._encoding)
        return b"".join(self._pieces)


def _inflater(encoding: str, chunk: bytes) -> Any:
    if encoding not in ("gzip", "x-gzip", "deflate"):
        raise _undecodable(encoding)
    # "deflate" is a zlib stream, but some servers send it without the header of one.
    is_bare = encoding == "deflate" and chunk[0] & 0x0F != zlib.DEFLATED
    return zlib.decompressobj(-zlib.MAX_WBITS if is_bare else zlib.MAX_WBITS | 32)


def _inflated(inflater: Any, chunk: bytes, encoding: str) -> bytes:
    with suppress(zlib.error):
        piece: bytes = inflater.decompress(chunk, PIECE)
        return piece
    raise _undecodable(encoding)  # raised here, it has no context, which would be named as the reason


def _undecodable(encoding: str) -> OSError:
    return OSError(errno.EILSEQ, f"a body with the encoding {plain(encoding, 20)!r} cannot be decoded")
