"""
``inbox audit``: compares the messages that the service lists with the runs and dead letters in Airflow.

The list is read page by page, and the runs of a page after it: a message whose run is started meanwhile is
not reported. Whether the service lists acknowledged messages is not published (docs/service.md 4.4). Where it
does not, a message that was acknowledged without a run cannot be found.
"""

from __future__ import annotations

import json
from argparse import Namespace
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

from airflow_provider_workflow.cli import counting, output
from airflow_provider_workflow.cli.arguments import moment_of, now, seconds_of
from airflow_provider_workflow.cli.running import Exit, hook_of
from airflow_provider_workflow.client import api, types
from airflow_provider_workflow.client.wire import plain
from airflow_provider_workflow.database import dag_runs
from airflow_provider_workflow.database.dag_runs import FoundRun, Selection

if TYPE_CHECKING:
    from airflow_provider_workflow.hooks.workflow import WorkflowHook

MOST_IDS = 100


class Kind(Enum):
    """What a message is: its name in the result, whether something is missing, and the cause."""

    STARTED = ("started", False, "it has a run")
    DEAD_LETTER = ("dead_letter", False, "it is a dead letter")
    REPLAYED = ("replayed", False, "it was a dead letter, and has a run since")
    WAITING = ("waiting", False, "it is available or leased, and has no run yet")
    UNKNOWN = ("unknown", False, "it has a status that this version does not know, and no run")
    LOST = (
        "lost",
        True,
        "it is acknowledged, and has neither a run nor a dead letter: another consumer acknowledged it, its"
        " run was deleted, or --target-dag-id does not name its DAG",
    )
    QUARANTINED = (
        "quarantined",
        True,
        "it was leased too often without an acknowledgement; the service delivers it no more, and has no call"
        " that returns its payload",
    )
    OVERDUE = (
        "overdue",
        True,
        "it has waited for longer than --overdue: nothing listens to the inbox, its target is broken, or no"
        " route takes it",
    )
    DOUBLED = (
        "doubled",
        True,
        "it has a run that is older than its dead letter: work on it may have been done twice",
    )
    WITHOUT_ID = ("without_id", True, "it has no id, so it can neither start a run nor be acknowledged")

    def __init__(self, label: str, is_missing: bool, cause: str) -> None:
        self.label = label
        self.is_missing = is_missing
        self.cause = cause


class Runs(NamedTuple):
    """The run of a message in a target, and its dead letter; None where it has none."""

    target: FoundRun | None
    dead_letter: FoundRun | None


def audit(args: Namespace) -> int:
    """
    Compare an inbox with Airflow.

    :return: ``FAULT`` if something is missing.
    :raises NotFoundError: there is no such inbox.
    :raises TargetError: the database is unreachable.
    """
    from airflow_provider_workflow.dispatch.dead_letters import RUN_PREFIX

    since = moment_of("--since", args.since)
    overdue = timedelta(seconds=seconds_of("--overdue", args.overdue))
    hook = hook_of(args)
    inbox = hook.get_inbox(args.inbox)
    dead = args.dead_letter_dag_id or dag_runs.dag_ids_of(RUN_PREFIX)
    auditing = Auditing(inbox["id"], tuple(args.target_dag_id), tuple(dead), since, overdue, now())
    with counting.live(auditing.progress):
        for page in _pages(hook, inbox["id"]):
            auditing.examine(page)
        auditing.count_forgotten()
    result = {"inbox": inbox.get("name"), **auditing.result()}
    output.show(args.output, result, auditing.rows())
    if auditing.missing:
        output.note(f"{auditing.missing} messages are missing a run, or need attention.")
        return Exit.FAULT
    return Exit.OK


def _pages(hook: WorkflowHook, inbox_id: str) -> Iterator[list[types.Message]]:
    """The messages of an inbox, a page at a time; ends even if the service repeats its pages."""
    cursor: str | None = None
    read: set[str | None] = set()
    while cursor not in read:
        read.add(cursor)
        page = hook.client.send(api.list_messages(inbox_id, cursor))
        yield page["results"]
        cursor = api.next_cursor(page)
        if cursor is None:
            return


@dataclass
class Auditing:
    """
    Compares messages with runs, and counts them.

    :param inbox_id: id of the inbox.
    :param targets: the DAGs that its messages start.
    :param dead_letter_dags: the DAGs that its dead letters start; may be empty.
    :param since: only messages that were created then or later, and runs that were started then or later.
    :param overdue: how long a message may wait for its run.
    :param began_at: when the comparison began.
    """

    inbox_id: str
    targets: tuple[str, ...]
    dead_letter_dags: tuple[str, ...]
    since: datetime | None
    overdue: timedelta
    began_at: datetime
    kinds: Counter[Kind] = field(default_factory=Counter)
    statuses: Counter[str] = field(default_factory=Counter)
    forgotten: dict[str, int] = field(default_factory=dict)
    _ids: dict[Kind, list[str]] = field(default_factory=dict)
    _seen: set[int] = field(default_factory=set)
    _listed: Counter[str] = field(default_factory=Counter)

    def examine(self, page: list[types.Message]) -> None:
        """Compare the messages of a page of the list."""
        new = [(message, _id_of(message)) for message in page if self._is_new(message)]
        for start in range(0, len(new), dag_runs.PAGE // 2):
            some = new[start : start + dag_runs.PAGE // 2]
            found = self._runs_of([message_id for _, message_id in some if message_id])
            for message, message_id in some:
                runs = found[message_id] if message_id else Runs(None, None)
                self._count(message, message_id, runs)

    def _is_new(self, message: types.Message) -> bool:
        """Whether a message is within the period, and was not in an earlier page."""
        created = counting.time_of(message.get("created_at"))
        if self.since is not None and created is not None and created < self.since:
            return False
        message_id = _id_of(message)
        if message_id is None:
            return True
        # Hashes, as there may be millions.
        key = hash(message_id)
        is_new = key not in self._seen
        self._seen.add(key)
        return is_new

    def _runs_of(self, message_ids: list[str]) -> dict[str, Runs]:
        """The runs of messages, by message id."""
        from airflow_provider_workflow.dispatch.dead_letters import RUN_PREFIX
        from airflow_provider_workflow.dispatch.runs import former_run_id_of, run_id_of

        own = {each: run_id_of(each, self.inbox_id) for each in message_ids}
        former = {each: former_run_id_of(each) for each in message_ids}
        dead = {each: run_id_of(each, self.inbox_id, RUN_PREFIX) for each in message_ids}
        wanted = [*own.values(), *(each for each in former.values() if each)]
        targets = dag_runs.runs_of(wanted, self.targets)
        letters = dag_runs.runs_of(dead.values(), self.dead_letter_dags)
        return {
            each: Runs(
                _first(targets.get(own[each]) or targets.get(former[each] or "")),
                _first(letters.get(dead[each])),
            )
            for each in message_ids
        }

    def _count(self, message: types.Message, message_id: str | None, runs: Runs) -> None:
        kind = Kind.WITHOUT_ID if message_id is None else self._kind_of(message, runs)
        self.statuses[plain(str(message.get("status")), 40)] += 1
        self.kinds[kind] += 1
        kept = self._ids.setdefault(kind, [])
        if kind.is_missing and message_id is not None and len(kept) < MOST_IDS:
            kept.append(plain(message_id))
        for name, run in runs._asdict().items():
            self._listed[name] += run is not None and self._is_in_period(run)

    def _kind_of(self, message: types.Message, runs: Runs) -> Kind:
        if runs.target is not None and runs.dead_letter is not None:
            is_replay = runs.target.run_after >= runs.dead_letter.run_after
            return Kind.REPLAYED if is_replay else Kind.DOUBLED
        if runs.target is not None:
            return Kind.STARTED
        if runs.dead_letter is not None:
            return Kind.DEAD_LETTER
        status = message.get("status")
        if status in ("available", "leased"):
            created = counting.time_of(message.get("created_at"))
            is_overdue = created is not None and self.began_at - created > self.overdue
            return Kind.OVERDUE if is_overdue else Kind.WAITING
        return {"acked": Kind.LOST, "quarantined": Kind.QUARANTINED}.get(str(status), Kind.UNKNOWN)

    def _is_in_period(self, run: FoundRun) -> bool:
        return run.run_after <= self.began_at and (self.since is None or run.run_after >= self.since)

    def count_forgotten(self) -> None:
        """Count the runs of messages that the service does not list any more, which is normal."""
        from airflow_provider_workflow.dispatch.dead_letters import RUN_PREFIX
        from airflow_provider_workflow.dispatch.runs import RUN_ID_PREFIX

        for name, dag_ids, prefix in (
            ("target", self.targets, RUN_ID_PREFIX),
            ("dead_letter", self.dead_letter_dags, RUN_PREFIX),
        ):
            conf = {"inbox_id": self.inbox_id}
            selection = Selection(prefix, dag_ids, self.since, self.began_at, conf)
            stored = dag_runs.count(selection) if dag_ids else 0
            self.forgotten[name] = max(0, stored - self._listed[name])

    @property
    def missing(self) -> int:
        """Number of messages of which something is missing."""
        return sum(number for kind, number in self.kinds.items() if kind.is_missing)

    def progress(self) -> str:
        """The counts so far in one line."""
        return f"{self.kinds.total()} messages examined, {self.missing} of them missing a run"

    def result(self) -> dict[str, Any]:
        """The comparison, for JSON and YAML output."""
        return {
            "inbox_id": self.inbox_id,
            "target_dag_ids": list(self.targets),
            "dead_letter_dag_ids": list(self.dead_letter_dags),
            "since": self.since.isoformat() if self.since else None,
            "listed": self.kinds.total(),
            "by_status": dict(self.statuses),
            **{kind.label: self.kinds[kind] for kind in Kind if not kind.is_missing},
            "no_longer_listed": {
                "runs": self.forgotten["target"],
                "dead_letters": self.forgotten["dead_letter"],
            },
            "missing": self.missing,
            "findings": {
                kind.label: {"count": self.kinds[kind], "cause": kind.cause, "ids": self._ids[kind]}
                for kind in Kind
                if kind.is_missing and self.kinds[kind]
            },
        }

    def rows(self) -> list[output.Row]:
        """The comparison, for a table."""
        return list(self._rows())

    def _rows(self) -> Iterator[output.Row]:
        for kind in Kind:
            if number := self.kinds[kind]:
                ids = counting.first_ids({"count": number, "ids": self._ids[kind]}) if kind.is_missing else ""
                missing = "yes" if kind.is_missing else "no"
                yield _row(kind.label, number, missing, kind.cause, ids)
        if any(self.forgotten.values()):
            cause = "runs and dead letters of messages that the service lists no more, as is normal"
            yield _row("no longer listed", sum(self.forgotten.values()), "no", cause, "")


def _row(label: str, number: int, missing: str, cause: str, ids: str) -> output.Row:
    return {"messages": label, "count": number, "missing": missing, "cause": cause, "first ids": ids}


def _first(runs: list[FoundRun] | None) -> FoundRun | None:
    """The oldest of these runs."""
    return min(runs, key=lambda run: run.run_after) if runs else None


def _id_of(message: types.Message) -> str | None:
    """The id of a message as the dispatcher reads it; None if it has none."""
    found: Any = message.get("id")
    if isinstance(found, (int, float)):
        return json.dumps(found)
    return found if isinstance(found, str) and found else None
