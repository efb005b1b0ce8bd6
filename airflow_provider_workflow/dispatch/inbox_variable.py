"""
Facts about the messages of an inbox that outlive a process, in an Airflow Variable for each inbox.

Messages are kept as hashes. Nothing here raises: without the Variable a process knows less, and nothing is
lost.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
from dataclasses import dataclass
from typing import Any

log = logging.getLogger(__name__)

MOST_KEPT = 2_000
"""Messages that a Variable keeps at most. Their hashes fit a text column of every database."""


@dataclass(frozen=True)
class InboxVariable:
    """
    A JSON document.

    :param name: of the Variable.
    :param description: shown on Airflow's page.
    """

    name: str
    description: str

    @classmethod
    def of(cls, prefix: str, conn_id: str, inbox: str, description: str) -> InboxVariable:
        """
        The Variable of an inbox.

        :param inbox: id or name; different processes must give the same.
        """
        name = f"{conn_id}__{inbox}"
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,199}", name):
            name = hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()
        return cls(prefix + name, description)

    def read(self) -> Any:
        """The document; None if there is none, or it cannot be read."""
        from airflow_provider_workflow.hooks.user_tokens import read_variable

        try:
            return json.loads(read_variable(self.name) or "null")
        except Exception as error:
            log.debug("The Airflow Variable %s cannot be read: %s", self.name, type(error).__name__)
            return None

    def write(self, document: Any) -> None:
        """Replace the document."""
        from airflow_provider_workflow.hooks.user_tokens import write_variable

        try:
            write_variable(self.name, json.dumps(document), self.description)
        except Exception as error:
            log.debug("The Airflow Variable %s cannot be written: %s", self.name, type(error).__name__)


def mark(message_id: str) -> str:
    """The hash of a message id."""
    return hashlib.sha256(message_id.encode(errors="surrogatepass")).hexdigest()[:12]
