"""What is wrong with the listeners of inboxes, and the fix, as ``doctor`` and the page say it."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any, NamedTuple

from airflow_provider_workflow.database.inbox_uses import InboxUse
from airflow_provider_workflow.hooks.workflow import DEFAULT_CONN_ID

FAILED, WARNING, SKIPPED, OK = "failed", "warning", "skipped", "ok"
"""The statuses of findings, the worst first."""
SEE_IMPORT_ERRORS = "correct the DAG file; airflow dags list-import-errors shows the errors"


class Finding(NamedTuple):
    """What was examined, a status, the detail, and how to fix a problem."""

    check: str
    status: str
    detail: str
    fix: str | None = None


def command(conn_id: str, text: str) -> str:
    """A command for a connection, to be pasted."""
    option = "" if conn_id == DEFAULT_CONN_ID else f" --conn-id {shlex.quote(conn_id)}"
    return f"airflow-workflow {text}{option}"


def names_of(inbox: Mapping[str, Any]) -> set[str]:
    """The id of an inbox, and its name if it has one."""
    return {inbox["id"], inbox.get("name") or inbox["id"]}


def meant(name: str, names: Iterable[str]) -> str:
    """A question for the most similar name; "" without one."""
    near = get_close_matches(name, names, n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


def missing_inbox(
    check: str, detail: str, inbox: str, listed: Iterable[Mapping[str, Any]], conn_id: str
) -> Finding:
    """
    The finding that an inbox does not exist.

    :param inbox: its id or name.
    :param listed: the inboxes that exist, one of which may be meant.
    """
    question = meant(inbox, {name for other in listed for name in names_of(other)})
    create = command(conn_id, f"inbox ensure {shlex.quote(inbox)}")
    return Finding(check, FAILED, f"{detail}{question}", f"correct the name, or create it: {create} ...")


def missing_inboxes(
    uses: Iterable[InboxUse], listed: Collection[Mapping[str, Any]], conn_id: str
) -> Iterator[tuple[InboxUse, Finding]]:
    """
    The listeners whose inbox does not exist, once for each DAG and inbox.

    :param uses: those of one connection, or of one that is known only at run time.
    :param listed: all inboxes of the connection.
    """
    existing = set[str]().union(*map(names_of, listed))
    first = {(use.dag_id, use.inbox): use for use in uses if use.conn_id and use.inbox not in existing}
    for use in first.values():
        if use.inbox is not None:
            detail = f"it listens to the inbox {use.inbox!r}, which does not exist"
            check = f"listener {use.dag_id}"
            yield use, missing_inbox(check, detail, use.inbox, listed, conn_id)


def no_listener(inbox: Mapping[str, Any], uses: Iterable[InboxUse]) -> Finding | None:
    """The finding that nothing listens to an inbox; None if something does, or may do so."""
    if any(use.inbox is None or use.inbox in names_of(inbox) for use in uses):
        return None
    fix = "deploy a DAG with @inbox_dag, unless others lease its messages"
    return Finding(_check(inbox), WARNING, "no DAG of this Airflow listens to it", fix)


def several_listeners(inbox: Mapping[str, Any], uses: Iterable[InboxUse]) -> Finding | None:
    """The finding that several DAGs lease messages of an inbox; None if no more than one does."""
    leasing = {use.dag_id for use in uses if use.inbox in names_of(inbox) and not use.is_watcher}
    if len(leasing) < 2:
        return None
    detail = f"{' and '.join(sorted(leasing))}: each message goes to one of them"
    fix = "keep one listener, and route to several DAGs in it (trigger_dag_id)"
    return Finding(_check(inbox), WARNING, detail, fix)


def needed_dags(uses: Iterable[InboxUse]) -> set[str]:
    """The ids of the listeners, of their targets, and of their dead-letter DAGs."""
    return {dag_id for use in uses for _, dag_id, _ in _needs_of(use)}


def dag_findings(
    uses: Iterable[InboxUse], deployed: Mapping[str, Any]
) -> Iterator[tuple[InboxUse, str, Finding]]:
    """
    What keeps listeners, targets and dead-letter DAGs from their runs; ``OK`` if nothing does.

    One finding for each role of a DAG, with the first use that needs it so, and with the id of the DAG.

    :param deployed: the rows of ``needed_dags``, by their ids, without those that are not deployed.
    """
    needs: dict[tuple[str, str], tuple[InboxUse, str]] = {}
    for use in uses:
        for role, dag_id, origin in _needs_of(use):
            needs.setdefault((role, dag_id), (use, origin))
    for (role, dag_id), (use, origin) in needs.items():
        yield use, dag_id, _dag_finding(role, dag_id, deployed.get(dag_id), origin)


def _needs_of(use: InboxUse) -> Iterator[tuple[str, str, str]]:
    """The role and the id of each DAG that a use needs, and what names the DAG."""
    yield "listener", use.dag_id, use.dag_id
    for target in use.targets:
        yield "target", target, f"trigger_dag_id of {use.dag_id}"
    if use.dead_letter_dag_id:
        yield "dead-letter DAG", use.dead_letter_dag_id, f"dead_letter_dag_id of {use.dag_id}"


def _dag_finding(role: str, dag_id: str, dag: Any, origin: str) -> Finding:
    """What keeps a DAG from its role; its row is None if it is not deployed."""
    check = f"{role} {dag_id}"
    if dag is None:
        return Finding(check, FAILED, "Airflow has no such DAG", f"deploy it, or correct {origin}")
    if dag.has_import_errors:
        return Finding(check, FAILED, "its file has import errors", SEE_IMPORT_ERRORS)
    if dag.is_paused:
        effect = "it starts no runs" if role == "listener" else "its runs stay queued"
        fix = f"unpause it: airflow dags unpause {shlex.quote(dag_id)}"
        return Finding(check, WARNING, f"paused: {effect}", fix)
    return Finding(check, OK, "deployed and unpaused")


def _check(inbox: Mapping[str, Any]) -> str:
    return f"listeners of {inbox.get('name') or inbox['id']}"
