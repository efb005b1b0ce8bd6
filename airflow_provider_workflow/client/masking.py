"""Masks the secrets of a request in an answer: services quote them, and errors are logged."""

from __future__ import annotations

import html
import json
import re
from base64 import b64encode
from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache
from urllib.parse import quote, quote_plus

from airflow_provider_workflow.client.errors import TransportError
from airflow_provider_workflow.client.wire import Answer

SHORTEST_SECRET = 5
"""Minimum number of characters of a secret that is masked; shorter ones would match parts of words."""
MASK = "***"


def masked_answer(answer: Answer, secrets: Iterable[str]) -> Answer:
    """An answer with ``***`` in place of secrets in what errors quote: two headers, and a body."""
    headers = {name.lower(): answer.headers[name] for name in answer.headers}
    for name in ("content-type", "location"):
        if name in headers:
            headers[name] = _masked(headers[name], secrets)
    if answer.status < 300:
        return replace(answer, headers=headers)
    try:
        # Without optional escapes, which services use for "/", "é" or other characters.
        text, errors = json.dumps(answer.json(), ensure_ascii=False), "surrogatepass"
    except (TransportError, RecursionError):
        text, errors = answer.body.decode(errors="surrogateescape"), "surrogateescape"
    return replace(answer, headers=headers, body=_masked(text, secrets).encode(errors=errors))


def _masked(text: str, secrets: Iterable[str]) -> str:
    """A text with ``***`` in place of secrets, in each spelling that an error may quote."""
    for secret in secrets:
        if len(secret) >= SHORTEST_SECRET:
            for spelling in _spellings(secret):
                text = text.replace(spelling, MASK)
    return text


@lru_cache(maxsize=16)
def _spellings(secret: str) -> tuple[str, ...]:
    """A secret as it is, quoted for JSON, Python, HTML and URLs, and in base64; the longest first."""
    quoted = {secret, repr(secret)[1:-1], ascii(secret)[1:-1], *_of_json(secret), *_of_html(secret)}
    for _ in range(2):  # the answer is JSON, and may quote JSON
        quoted |= {spelling for text in quoted for spelling in _of_json(text)}
    in_url = {quote(secret), quote(secret, safe=""), quote_plus(secret)}
    in_url |= {re.sub("%..", lambda escape: escape[0].lower(), text) for text in in_url}
    in_base64 = _of_base64(secret.encode(errors="surrogatepass"))
    return tuple(sorted({*quoted, *in_url, *in_base64}, key=len, reverse=True))


def _of_json(text: str) -> Iterable[str]:
    return (json.dumps(text, ensure_ascii=ascii_only)[1:-1] for ascii_only in (True, False))


def _of_html(secret: str) -> Iterable[str]:
    escaped = html.escape(secret)
    return html.escape(secret, quote=False), escaped, escaped.replace("&#x27;", "&#39;")


def _of_base64(secret: bytes) -> Iterable[str]:
    """The base64 of a secret alone, and what the base64 of any text with it has of it."""
    alone = b64encode(secret).decode()
    parts = [alone, alone.rstrip("=")]
    for before in range(3):  # bytes before the secret
        bits = 8 * before, 8 * (before + len(secret))
        parts.append(b64encode(bytes(before) + secret).decode()[-(-bits[0] // 6) : bits[1] // 6])
    return [spelling for part in parts for spelling in (part, part.translate(_URL_SAFE))]


_URL_SAFE = str.maketrans("+/", "-_")
