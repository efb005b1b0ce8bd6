"""The address of each inbox: it ends in a part that nobody can guess, made from a secret and the inbox."""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import secrets
from collections.abc import Collection, Sequence
from pathlib import Path

SHORTEST_SECRET = 32
"""Characters. The 128 random bits that a secret has to hold are as long in hexadecimal digits."""
_PURPOSE = b"notification address of inbox "


class Addresses:
    """
    Which path belongs to which inbox. Nothing has to be stored for it.

    :param secrets: the current one first, which addresses are made from; those of the others are answered
        too, so that a secret can be replaced without missing a notification.
    :param inboxes: names or ids of the inboxes.
    """

    def __init__(self, secrets: Sequence[str], inboxes: Collection[str]) -> None:
        self._current = {inbox: part_of(secrets[0], inbox) for inbox in inboxes}
        self._known = [(part_of(secret, inbox).encode(), inbox) for secret in secrets for inbox in inboxes]

    def path(self, inbox: str) -> str:
        """The path to give to the service for an inbox."""
        return f"/{self._current[inbox]}"

    def inbox_of(self, path: str) -> str | None:
        """
        The inbox that a path belongs to, or None.

        It takes as long for a path that is nearly right as for any other.
        """
        given = path[1:].encode(errors="surrogatepass")
        found = None
        for part, inbox in self._known:
            if hmac.compare_digest(part, given):
                found = inbox
        return found


def part_of(secret: str, inbox: str) -> str:
    """The unguessable part: 256 bits, as 43 characters that need no quoting in an address."""
    digest = hmac.new(secret.encode(), _PURPOSE + inbox.encode(), hashlib.sha256).digest()
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")


def read_or_make(path: Path) -> list[str]:
    """
    The secrets in a file, one per line, the current one first; a file that is missing is made, with a new
    secret that only its owner can read.

    :raises ValueError: the file cannot be read or made, or holds no usable secret.
    """
    try:
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            return usable(path.read_text(), f"the file {path}")
        made = secrets.token_urlsafe(32)
        with os.fdopen(descriptor, "w") as file:
            file.write(f"{made}\n")
        return [made]
    except OSError as error:
        raise ValueError(f"the file {path} cannot be used: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ValueError(f"the file {path} is no text") from None


def usable(text: str, source: str) -> list[str]:
    """
    The secrets of a text, one per line.

    :param source: what the text came from, for the error.
    :raises ValueError: there is none, or one is so short that it could be guessed.
    """
    found = text.split()
    if not found or min(map(len, found)) < SHORTEST_SECRET:
        raise ValueError(
            f"{source} must hold secrets of at least {SHORTEST_SECRET} characters, one per line, the current"
            ' one first (python -c "import secrets; print(secrets.token_urlsafe(32))" makes one)'
        )
    return found
