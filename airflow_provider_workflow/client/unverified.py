"""A connection that verifies no certificate is named once in a process, not with each of its requests."""

from __future__ import annotations

import logging
import os

log = logging.getLogger(__name__)

_named: set[tuple[str, str]] = set()
# The log of a task is not that of the process that it was forked from.
os.register_at_fork(after_in_child=_named.clear)


def warn_once(connection_id: str, base_url: str) -> None:
    """Log a WARNING, unless this process has done so for this connection."""
    if (connection_id, base_url) in _named:
        return
    _named.add((connection_id, base_url))
    log.warning(
        "The connection %r verifies no certificate: anybody between here and the service may read its"
        " secrets. Set verify to true, or to a file with the certificate of the service's authority",
        connection_id or base_url,
    )
