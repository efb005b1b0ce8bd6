"""What a path may lead to that is no file of certificates."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

KINDS = {
    "pipe": "cannot be read: it is not a regular file",
    "endless": "cannot be read: it is not a regular file",
    "folder": "cannot be read: it is not a regular file",
    "huge": "cannot be read: it is larger than 1 MB",
    "missing": "cannot be read: No such file or directory",
    "empty": "has no certificates in PEM format, or a damaged one",
    "broken": "has no certificates in PEM format, or a damaged one",
}
"""What is wrong with each, in words."""
CONTENTS = {
    "huge": b"-----BEGIN CERTIFICATE-----\n" + bytes(1_000_001),
    "empty": b"",
    "broken": b"-----BEGIN CERTIFICATE-----\nbroken\n-----END CERTIFICATE-----\n",
}


@contextmanager
def odd_file(kind: str, folder: Path) -> Iterator[str]:
    """The path of such a file. Whoever opens the pipe as an ordinary file is released after 10 s."""
    path = folder / kind
    if kind == "endless":
        yield "/dev/zero"
        return
    if kind == "pipe":
        os.mkfifo(path)
        release = threading.Timer(10, _release, [path])
        release.start()
        yield str(path)
        release.cancel()
        _release(path)
        return
    if kind == "folder":
        path.mkdir()
    elif kind in CONTENTS:
        path.write_bytes(CONTENTS[kind])
    yield str(path)


def _release(path: Path) -> None:
    os.close(os.open(path, os.O_RDWR | os.O_NONBLOCK))
