"""
Makes strings of others harmless, and some readable: those of the service, its users and Airflow.

They may have line breaks, control characters, Markdown, half of a character, or any length. This table says
which function is for what:

========================================= =========================================================
where the string goes                     function
========================================= =========================================================
log line, error                           ``escaped``: other characters are escaped, so none is lost
event of a trigger, XCom: one string      ``escaped``
XCom: a JSON value with its strings       ``for_xcom``: changes only what Airflow cannot store
explanation of the service in an error    ``one_line``: line breaks become spaces
conf of a dead letter; comparison of ids  ``ascii_of``: the same in every database
note of a run                             ``quoted``: code, in which Markdown has no effect
the page                                  ``for_page``: what JSON and UTF-8 can encode
value of a tag of a metric                ``safe``: letters, digits and ``_.-``
address in an error or a log line         ``host_of``: without the path and the query
number with its noun                      ``counted``
table of the command line                 ``cell`` in ``cli/output.py``: masked, and ``escaped``
========================================= =========================================================

What may quote a secret is masked before: by ``client/secrets.py`` in answers of the service, by Airflow in
what commands print.
"""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlsplit

MAX_TAG_LENGTH = 80
"""Maximum characters. With InfluxDB tags are part of the name, which may have 250 characters."""
_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]+")


def escaped(text: str, longest: int = 300) -> str:
    """
    A string of the service, escaped so that it is safe in an error, a log line, an event or an XCom.

    :param longest: maximum number of characters; a longer string is truncated.
    """
    cut = text if len(text) <= longest else text[: longest - 3] + "..."
    if cut.isprintable():
        return cut
    return "".join(sign if sign.isprintable() else ascii(sign)[1:-1] for sign in cut)


def one_line(text: str) -> str:
    """A string of the service on one line, so that it cannot forge lines of a log; at most 500 characters."""
    return " ".join("".join(sign if sign.isprintable() else " " for sign in text[:500]).split())


def ascii_of(text: str, longest: int = 300) -> str:
    """One line of printable ASCII; a longer one is truncated."""
    return escaped(text, len(text)).encode("ascii", "backslashreplace").decode()[:longest]


def quoted(text: str, longest: int = 120) -> str:
    """
    A string of the service or of a user, as a piece of code for the note of a run.

    Airflow's UI renders notes as Markdown, and would load the images and offer the links in it. The strings
    of a note together must fit into the 1000 characters that Airflow stores: code that is cut has no end.

    :param longest: maximum number of characters; a longer one is truncated.
    """
    without_end = escaped(text, longest).replace("`", r"\x60")
    return f"`{without_end[:longest]}`"


def for_xcom(value: Any) -> Any:
    """
    A JSON value of the service with strings that any XCom can hold; its keys are ours.

    Airflow cannot store a lone surrogate (half of an emoji, in a truncated string), and PostgreSQL cannot
    store NUL: both become U+FFFD.
    """
    if isinstance(value, dict):
        return {key: for_xcom(part) for key, part in value.items()}
    if isinstance(value, list):
        return [for_xcom(part) for part in value]
    if not isinstance(value, str):
        return value
    text = value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text.replace("\0", "\ufffd")


def for_page(text: str, longest: int = 300) -> str:
    """
    A string that UTF-8 can encode, for JavaScript that shows it as text: a lone surrogate becomes ``?``.

    :param longest: maximum number of characters; a longer string is truncated.
    """
    cut = text if len(text) <= longest else f"{text[: longest - 3]}..."
    return cut.encode(errors="replace").decode()


def safe(value: str) -> str:
    """A string that every metrics system accepts as the value of a tag: other characters become ``_``."""
    return _UNSAFE.sub("_", value)[:MAX_TAG_LENGTH] or "_"


def host_of(url: str) -> str:
    """Host and port of a URL, for errors, which must not contain its path or query."""
    parts = urlsplit(url)
    name = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else str(parts.hostname)
    return f"{name}:{parts.port}" if parts.port else name


def counted(number: int, singular: str, plural: str = "") -> str:
    """A number with its noun: ``1 message``, ``2 messages``; by default the plural ends in "s"."""
    return f"{number} {singular if number == 1 else plural or f'{singular}s'}"
