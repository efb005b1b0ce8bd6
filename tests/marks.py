"""Secrets that a search recognizes, whatever they were written down as."""

from __future__ import annotations

import base64
import re
import secrets

from airflow_provider_workflow.emulator.rules.oauth import MARK

KINDS = ("access-token", "refresh-token", "code")
"""What the emulator makes; each begins with what it is, so that used-up ones are found as well."""
AWKWARD = ' "\\/+&=%<\u00e9>'
"""Signs that JSON, addresses and pages each write in a way of their own."""


class Marks:
    """
    The secrets of a test. Each holds a random part of letters, digits, "-" and "_", which no escaping
    changes: it is looked for as it is, and within base64, at each of the three places it may begin at.
    """

    def __init__(self) -> None:
        self._needles: dict[bytes, str] = {}
        for kind in KINDS:
            self.add(kind, f"{MARK}{kind}-")

    def new(self, kind: str) -> str:
        """Make a secret that is told from all others, and hold awkward signs."""
        core = secrets.token_hex(16)
        self.add(kind, core)
        return f"{kind}{AWKWARD}{core}"

    def add(self, kind: str, value: str) -> str:
        """
        Look for this secret as well.

        :param kind: named in the place of the secret where it is found.
        :raises ValueError: it is so short that it could be anything, or has signs that are escaped.
        """
        if not re.fullmatch(r"[A-Za-z0-9_-]{14,}", value):
            raise ValueError(f"{kind} cannot be looked for")
        self._needles[value.encode()] = kind
        for part in _in_base64(value.encode()):
            self._needles[part] = f"{kind}, in base64"
        return value

    def kinds_in(self, content: bytes | str) -> list[str]:
        """What is in a text; never the secrets themselves, as this ends in the report of a test."""
        text = content.encode(errors="surrogatepass") if isinstance(content, str) else content
        return sorted({kind for needle, kind in self._needles.items() if needle in text})


def _in_base64(value: bytes) -> set[bytes]:
    """What base64 makes of a value within a longer text, but for the signs that depend on its neighbors."""
    parts = set()
    for before, shared in ((0, 0), (1, 2), (2, 3)):
        sextets = (before + len(value)) * 8 // 6
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            parts.add(encode(bytes(before) + value)[shared:sextets])
    return parts
