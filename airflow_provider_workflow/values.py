"""Strings of the service in our own log lines and errors."""

from __future__ import annotations


def plain(text: str, longest: int = 300) -> str:
    """
    A string of the service in a form that is safe in an error, a log line, an event or an XCom.

    :param longest: characters that are kept; a longer string is cut.
    """
    cut = text if len(text) <= longest else text[: longest - 3] + "..."
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in cut)
