"""Which addresses are this machine's own."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from urllib.parse import urlsplit


@dataclass(frozen=True)
class Place:
    """
    Where a redirect URI points to on this machine.

    :param host: name or address, without brackets.
    :param path: as a browser sends it.
    """

    host: str
    port: int
    path: str

    @classmethod
    def of(cls, redirect_uri: str) -> Place | None:
        """The place of a redirect URI; None where it is another machine's, or one of https."""
        parts = urlsplit(redirect_uri)
        host = parts.hostname or ""
        if parts.scheme != "http" or not is_loopback(host):
            return None
        return cls(host, parts.port or 80, parts.path or "/")

    def addresses(self) -> list[str]:
        """The addresses to listen on: a browser may take either for ``localhost``."""
        return ["127.0.0.1", "::1"] if self.host == "localhost" else [self.host]

    def is_named_by(self, header: str) -> bool:
        """Whether a Host header is the one that a browser sends for this redirect URI."""
        name = f"[{self.host}]" if ":" in self.host else self.host
        return header.lower() in {f"{name}:{self.port}", *([name] if self.port == 80 else [])}


def is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
