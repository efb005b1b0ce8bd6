"""Names of inboxes that this process knows, for logs, metrics and spans: most calls have only the id."""

from __future__ import annotations

from collections import OrderedDict
from contextlib import suppress

from airflow_provider_workflow.text import escaped

NAMES: OrderedDict[tuple[str, str], str] = OrderedDict()
"""
The names of inboxes that this process knows, those that were used last at the end. By the ids of connection
and inbox: services may use the same ids, and none names the inbox of another one.
"""
MAX_NAMES = 10_000
MAX_NAME = 100
"""Characters of a name (docs/service.md 2.1); of a longer one the rest is cut off."""


def name_of(inbox: str, conn_id: str) -> str:
    """
    The name of an inbox if this process knows it, else its id; escaped.

    :param inbox: id or name.
    :param conn_id: id of the Airflow connection.
    """
    if (name := NAMES.get((conn_id, inbox))) is None:
        return escaped(inbox)
    remember_name(inbox, conn_id, name)
    return escaped(name)


def remember_name(inbox_id: str, conn_id: str, name: str) -> None:
    """Let logs, metrics and spans show an inbox by this name, unless 10,000 others are used later."""
    NAMES[conn_id, inbox_id] = name[:MAX_NAME]
    # Neither fails if another thread does the same.
    with suppress(KeyError):
        NAMES.move_to_end((conn_id, inbox_id))
        while len(NAMES) > MAX_NAMES:
            NAMES.popitem(last=False)
