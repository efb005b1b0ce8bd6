"""
Masks secrets in what errors quote of an answer: the service may have sent back what it received.

A service, a proxy or a library may quote a secret in many spellings; each of them is replaced by ``***``.
"""

from __future__ import annotations

import html
import json
import re
import unicodedata
from base64 import b64encode
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache, partial
from urllib.parse import quote, quote_plus

from airflow_provider_workflow.client.errors import TransportError
from airflow_provider_workflow.client.http_messages import MAX_ERROR_BYTES, Answer

SHORTEST_SECRET = 5
"""Minimum number of characters of a secret that is masked; shorter ones would match parts of words."""
MASK = "***"


def masked_answer(answer: Answer, secrets: Sequence[str], *, with_body: bool = True) -> Answer:
    """
    An answer with ``***`` in place of secrets in what errors quote: two headers, and a body.

    A body of more than ``MAX_ERROR_BYTES`` bytes is left out.
    """
    headers = {name.lower(): answer.headers[name] for name in answer.headers}
    for name in ("content-type", "location"):
        if name in headers:
            headers[name] = _masked(headers[name], secrets)
    if not with_body:
        return replace(answer, headers=headers)
    if len(answer.body) > MAX_ERROR_BYTES:
        return replace(answer, headers=headers, body=b"")
    try:
        # Without optional escapes, which services use for "/", "é" or other characters.
        text, errors = json.dumps(answer.json(), ensure_ascii=False), "surrogatepass"
    except (TransportError, RecursionError):
        text, errors = answer.body.decode(errors="surrogateescape"), "surrogateescape"
    masked = _masked(text, secrets)
    if answer.is_cut:
        # It may end within a secret.
        masked = masked[
            : -max([1, *(len(spelling) for secret in secrets for spelling in _spellings(secret))])
        ]
    return replace(answer, headers=headers, body=masked.encode(errors=errors))


def _masked(text: str, secrets: Iterable[str]) -> str:
    """A text with ``***`` in place of secrets, in each spelling that an error may quote."""
    for secret in secrets:
        if len(secret) >= SHORTEST_SECRET:
            for spelling in _spellings(secret):
                text = text.replace(spelling, MASK)
    return text


@lru_cache(maxsize=16)
def _spellings(secret: str) -> tuple[str, ...]:
    """
    A secret as it is, in other encodings, quoted for JSON, Python, HTML and URLs, and in base64; the longest
    first.
    """
    quoted: set[str] = set()
    for text in _decodings(secret):
        quoted |= {text, repr(text)[1:-1], ascii(text)[1:-1], *_of_json(text), *_of_html(text)}
    for _ in range(2):  # the answer is JSON, and may quote JSON
        quoted |= {spelling for text in quoted for spelling in _of_json(text)}
    composed = {secret, *(unicodedata.normalize(form, secret) for form in ("NFC", "NFD"))}
    in_url = {spell(text) for text in composed for spell in (quote, partial(quote, safe=""), quote_plus)}
    in_url |= {re.sub("%..", lambda escape: escape[0].lower(), text) for text in in_url}
    in_base64 = _of_base64(secret.encode(errors="surrogatepass"))
    return tuple(sorted({*quoted, *in_url, *in_base64}, key=len, reverse=True))


def _decodings(secret: str) -> set[str]:
    """
    A secret, composed and decomposed, and each of these as it reads if UTF-8 is decoded as Latin-1 or the
    reverse, up to twice: a service may do so, and so does one of the HTTP libraries with headers.
    """
    texts = {secret, *(unicodedata.normalize(form, secret) for form in ("NFC", "NFD"))}
    for _ in range(2):
        texts |= {text.encode(errors="surrogatepass").decode("latin-1") for text in texts}
        for text in tuple(texts):
            with suppress(UnicodeEncodeError):
                texts.add(text.encode("latin-1").decode(errors="surrogateescape"))
    return texts


def _of_json(text: str) -> Iterable[str]:
    return (json.dumps(text, ensure_ascii=ascii_only)[1:-1] for ascii_only in (True, False))


def _of_html(secret: str) -> Iterable[str]:
    html_form = html.escape(secret)
    return html.escape(secret, quote=False), html_form, html_form.replace("&#x27;", "&#39;")


def _of_base64(secret: bytes) -> Iterable[str]:
    """The base64 of a secret alone, and what the base64 of any text with it has of it."""
    alone = b64encode(secret).decode()
    parts = [alone, alone.rstrip("=")]
    for before in range(3):  # bytes before the secret
        bits = 8 * before, 8 * (before + len(secret))
        parts.append(b64encode(bytes(before) + secret).decode()[-(-bits[0] // 6) : bits[1] // 6])
    return [spelling for part in parts for spelling in (part, part.translate(_URL_SAFE))]


_URL_SAFE = str.maketrans("+/", "-_")
