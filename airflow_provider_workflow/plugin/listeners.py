"""Which DAGs listen to an inbox, as far as their files say it; read from the database once a minute."""

from __future__ import annotations

from typing import Any

from airflow_provider_workflow import airflow_internals
from airflow_provider_workflow.database.dag_runs import database_errors
from airflow_provider_workflow.database.inbox_uses import InboxUse, inbox_uses
from airflow_provider_workflow.dispatch.rejections import TargetError
from airflow_provider_workflow.plugin import airflow_server, errors
from airflow_provider_workflow.plugin.access import Reader, dag_url
from airflow_provider_workflow.plugin.answers import Answers


class Uses(Answers):
    """The uses of inboxes in all DAGs, which are kept for a minute: reading them reads all listener DAGs."""

    def __init__(self) -> None:
        super().__init__(60.0)


USES = Uses()


def uses() -> list[InboxUse]:
    """
    The uses of inboxes in all DAGs.

    :raises PageError: the database does not answer.
    """
    kept = USES.get(("uses",), _read)
    found: list[InboxUse] | None = kept.value
    return kept.fetched() if found is None else found


def _read() -> list[InboxUse]:
    try:
        with database_errors(), airflow_internals.database_session() as session:
            return list(inbox_uses(session))
    except TargetError as error:
        raise errors.database_away(error) from None


def targets_of(connection_id: str) -> set[str]:
    """The DAGs whose runs the listeners of a connection's inboxes start."""
    return {target for use in uses() if use.conn_id == connection_id for target in use.targets}


class Listeners:
    """
    The listeners of a connection's inboxes that a user may see; they are looked up once for all inboxes.

    :param reader: the user.
    """

    def __init__(self, connection_id: str, reader: Reader) -> None:
        found = [use for use in uses() if use.conn_id == connection_id and reader.may_read(use.dag_id)]
        self._paused = airflow_server.paused({use.dag_id for use in found}) if found else {}
        self._by_inbox: dict[str | None, list[InboxUse]] = {}
        for use in found:
            self._by_inbox.setdefault(use.inbox, []).append(use)

    def of(self, inbox_id: str, name: str | None) -> list[dict[str, Any]]:
        """The listeners of an inbox, as JSON: one for each DAG, with the kinds of what listens in it."""
        kinds: dict[str, set[str]] = {}
        for each in dict.fromkeys((inbox_id, name)):
            for use in self._by_inbox.get(each, ()) if each else ():
                kinds.setdefault(use.dag_id, set()).add(use.kind)
        return [
            {
                "dag_id": dag_id,
                "kinds": sorted(found),
                "is_paused": self._paused[dag_id],
                "url": dag_url(dag_id),
            }
            for dag_id, found in kinds.items()
            if dag_id in self._paused
        ]
