"""Bodies and credentials of the token endpoint (specification 4.3)."""

from __future__ import annotations

import base64
import binascii
from email.message import EmailMessage
from email.parser import BytesParser
from email.policy import HTTP
from urllib.parse import parse_qsl

from airflow_provider_workflow.emulator.web.wire import Request


def read_form(request: Request) -> dict[str, str]:
    """Read ``multipart/form-data`` or ``application/x-www-form-urlencoded``; anything else is empty."""
    content_type = request.header(b"content-type") or ""
    kind = content_type.partition(";")[0].strip().lower()
    if kind == "application/x-www-form-urlencoded":
        return dict(parse_qsl(request.body.decode("utf-8", "replace"), keep_blank_values=True))
    return _multipart(content_type, request.body) if kind == "multipart/form-data" else {}


def basic_credentials(request: Request) -> tuple[str, str] | None:
    """Read client id and secret of HTTP Basic; None without it, blanks when it is malformed."""
    kind, _, value = (request.header(b"authorization") or "").partition(" ")
    if kind.lower() != "basic":
        return None
    try:
        user, _, password = base64.b64decode(value, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return "", ""
    return user, password


def _multipart(content_type: str, body: bytes) -> dict[str, str]:
    head = f"Content-Type: {content_type}\r\n\r\n".encode("latin-1")
    message = BytesParser(EmailMessage, policy=HTTP).parsebytes(head + body)
    form: dict[str, str] = {}
    for part in message.iter_parts():
        name = part.get_param("name", header="content-disposition")
        content = part.get_payload(decode=True)
        if isinstance(name, str) and isinstance(content, bytes):
            form[name] = content.decode("utf-8", "replace")
    return form
