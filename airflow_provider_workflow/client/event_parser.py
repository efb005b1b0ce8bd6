"""Takes ``text/event-stream`` apart (docs/service.md 5)."""

from __future__ import annotations

import json
from typing import Any

LONGEST_LINE = 65536
"""Bytes of a line, and of an event, that are kept; a notice is some hundred."""


class EventParser:
    """Takes an event stream apart, whatever way its bytes are cut."""

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[bytes] = []
        self._after_return = False

    def feed(self, chunk: bytes) -> list[Any]:
        """
        :param chunk: the next bytes of the stream.
        :return: the decoded data of each event that is now whole; undecodable data counts as {}.
        """
        if not chunk:
            return []
        if self._after_return:
            chunk = chunk.removeprefix(b"\n")  # the second half of a line end that was cut in two
        self._after_return = chunk.endswith(b"\r")
        lines = (self._rest + chunk).replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        self._rest = lines.pop()[:LONGEST_LINE]
        return [event for line in lines if (event := self._take(line[:LONGEST_LINE])) is not None]

    def _take(self, line: bytes) -> Any:
        """The event that a line ends, or None."""
        if line.startswith(b"data:") and sum(map(len, self._data)) < LONGEST_LINE:
            self._data.append(line[5:].strip())
        if line or not self._data:
            return None
        data, self._data = b"\n".join(self._data), []
        return _decoded(data)


def _decoded(data: bytes) -> Any:
    # A notice that cannot be read is still a notice: whoever waits will lease and see.
    try:
        return json.loads(data) or {}
    except (ValueError, RecursionError):
        return {}
