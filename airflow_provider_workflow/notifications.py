"""
The ``notification_url`` of inboxes: made where an inbox is ensured, checked where the API server gets a POST.

It is ``<base URL>/workflow/notify/<connection id>/<inbox>/<mac>``. The mac is a keyed hash of the URI of the
inbox's asset. Its key is Airflow's Fernet key, so nothing is stored (docs/decisions/notification-key.md).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Callable, Sequence
from urllib.parse import quote, unquote, urlsplit

from airflow_provider_workflow.assets import SCHEME, uri_of
from airflow_provider_workflow.client.wire import plain
from airflow_provider_workflow.config import SECTION, notification_base_url

PATH = "/workflow/notify"
"""Where the API server answers notifications, below its own base path."""
LONGEST_PATH = 2048
"""Characters. The service takes no longer URL."""
CHECK_SECONDS = 10.0
_PURPOSE = b"airflow-provider-workflow notification "
_KEY_BYTES = 32


class NotificationURLError(ValueError):
    """A ``notification_url`` cannot be made: Airflow's configuration lacks what the text names."""


def notification_url(inbox: str, workflow_conn_id: str) -> str:
    """
    The URL that tells Airflow's API server that an inbox has messages.

    :param inbox: id or name, the same as in ``create_asset``.
    :raises NotificationURLError: Airflow's configuration lacks the base URL or the Fernet key.
    """
    base, keys = _base_url(), fernet_keys()
    uri = uri_of(inbox, workflow_conn_id)
    connection, name = (_segment(part) for part in uri.removeprefix(f"{SCHEME}://").split("/"))
    return f"{base}{PATH}/{connection}/{name}/{_mac(keys[0], uri)}"


def checked_url(inbox: str, workflow_conn_id: str, warn: Callable[[str], None]) -> str:
    """
    The URL of :func:`notification_url`, after a GET request that checks it.

    :param warn: called with the text of a warning if the API server rejects the URL. Without any answer it is
        not called: the service must reach the API server by this URL, and this process need not.
    """
    url = notification_url(inbox, workflow_conn_id)
    status = _status_of(url)
    if status is not None and not 200 <= status < 300:
        warn(
            f"Inbox {plain(inbox)} will not notify Airflow: {urlsplit(url).netloc} answers {status} to its"
            " URL for notifications. Give this process and the API server the same [core] fernet_key; check"
            f" [{SECTION}] notification_base_url and page, and that the proxy passes the path on as it is."
        )
    return url


def _status_of(url: str) -> int | None:
    """The status of the answer to a GET, which starts nothing; None if there is no answer."""
    from airflow.sdk.log import mask_secret

    from airflow_provider_workflow.client.errors import WorkflowError
    from airflow_provider_workflow.client.over_requests import RequestsWire
    from airflow_provider_workflow.client.settings import proxy_for, trusted
    from airflow_provider_workflow.client.wire import Request

    # At DEBUG, the HTTP library logs the path.
    mask_secret(url.rpartition("/")[2])
    wire = RequestsWire(trusted(True)[1])
    try:
        return wire.exchange(Request("GET", url, {}, {}, None, CHECK_SECONDS, proxy_for(url))).status
    except WorkflowError:
        return None
    finally:
        wire.close()


def notified_inbox(parts: Sequence[str], keys: Sequence[bytes]) -> tuple[str, str] | None:
    """
    The connection id and the inbox that a path names, if its mac was made from one of the keys.

    The comparison takes as long for a mac that is nearly right as for any other.

    :param parts: connection id, inbox and mac, as in the path after one percent-decoding.
    """
    if len(parts) != 3 or sum(map(len, parts)) > LONGEST_PATH:
        return None
    try:
        connection, inbox = (unquote(part, errors="strict") for part in parts[:2])
        uri, given = uri_of(inbox, connection), parts[2].encode()
    except ValueError:
        return None
    matches = [hmac.compare_digest(_mac(key, uri).encode(), given) for key in keys]
    return (connection, inbox) if any(matches) else None


def fernet_keys() -> list[bytes]:
    """
    The keys of ``[core] fernet_key``: the current one first, then those that it replaced.

    :raises NotificationURLError: it is empty in this process, or holds something else.
    """
    from airflow.providers.common.compat.sdk import conf

    value = str(conf.get("core", "fernet_key", fallback="") or "")
    # The Task SDK returns the default as it is, before a key is generated.
    if not value.strip() or value == "{FERNET_KEY}":
        raise _no_key("is empty")
    try:
        keys = [base64.urlsafe_b64decode(part.strip()) for part in value.split(",")]
    except (binascii.Error, ValueError):
        raise _no_key("is no Fernet key") from None
    if {len(key) for key in keys} != {_KEY_BYTES}:
        raise _no_key("is no Fernet key")
    return keys


def _no_key(problem: str) -> NotificationURLError:
    return NotificationURLError(
        f"[core] fernet_key {problem} in this process; the secret part of a notification_url is made from it."
        " Set it to the value that the API server has."
    )


def _mac(key: bytes, uri: str) -> str:
    """256 bits, as 43 characters that need no quoting in a URL."""
    digest = hmac.new(key, _PURPOSE + uri.encode(), hashlib.sha256).digest()
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")


def _segment(part: str) -> str:
    """
    Encode a part of an asset's URI, which is percent-encoded, as a segment of a path.

    Encoded twice, it passes servers and proxies that decode it once: a slash in a name stays in its segment.
    """
    # Clients and proxies resolve the segments "." and "..".
    return quote(part.replace(".", "%2E") if not part.strip(".") else part, safe="")


def _base_url() -> str:
    from airflow.providers.common.compat.sdk import conf

    option, url = f"[{SECTION}] notification_base_url", notification_base_url()
    if not url:
        option, url = "[api] base_url", str(conf.get("api", "base_url", fallback="") or "")
    if not url:
        raise NotificationURLError(
            f"The URL of the API server is not known in this process: set [{SECTION}] notification_base_url"
            " to the one by which the service reaches it (https://hooks.example.com), or [api] base_url."
        )
    # The error does not quote the URL: it may contain a password.
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and parts.hostname and "@" not in parts.netloc
    except ValueError:
        usable = False
    if not usable or parts.query or parts.fragment:
        raise NotificationURLError(
            f"{option} must be an http or https URL without user, query and fragment,"
            " such as https://hooks.example.com"
        )
    return url.rstrip("/")
