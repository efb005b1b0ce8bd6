"""``dead-letters``: lists, shows and replays dead letters."""

from __future__ import annotations

import json
import re
from argparse import Namespace
from collections.abc import Iterable, Iterator
from dataclasses import replace as changed
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import islice
from typing import Any

from airflow_provider_workflow import clock, moments
from airflow_provider_workflow.cli import output
from airflow_provider_workflow.cli.common import Exit, hook_of
from airflow_provider_workflow.client.errors import NotFoundError
from airflow_provider_workflow.client.inboxes import is_id
from airflow_provider_workflow.database import dag_runs
from airflow_provider_workflow.database.dag_runs import (
    DEAD_LETTER_ENTRIES,
    DatabaseRuns,
    Selection,
    StoredDeadLetter,
    StoredRun,
    with_replays,
)
from airflow_provider_workflow.database.inbox_uses import InboxUse, dead_letter_dags, inbox_uses
from airflow_provider_workflow.dispatch.blame import Reason
from airflow_provider_workflow.dispatch.replay import NotReplayableError, Replay
from airflow_provider_workflow.dispatch.results import MAX_IDS, add
from airflow_provider_workflow.dispatch.run_errors import RunRejected, TargetError
from airflow_provider_workflow.dispatch.runs import DEAD_LETTER_PREFIX
from airflow_provider_workflow.text import counted

UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
"""Seconds of each unit."""
SHOWN_CAUSES = 10
SHOWN_DAGS = 10


def list_dead_letters(args: Namespace) -> int:
    """
    List dead letters.

    :raises TargetError: the database is unreachable.
    """
    if args.limit < 1:
        raise ValueError(f"--limit must be 1 or more, not {args.limit}")
    size = min(args.limit + 1, dag_runs.MAX_PAGE_SIZE)
    pages, named = dag_runs.pages(_selection_of(args), DEAD_LETTER_ENTRIES, size=size), _NamedDags(args)
    letters = (letter for page in pages for letter in with_replays(named.taken(page)))
    first = list(islice(letters, args.limit + 1))
    shown = first[: args.limit]
    output.show(args.output, [_result(letter) for letter in shown], [_row(letter) for letter in shown])
    if len(first) > len(shown):
        output.note(f"There are more than {counted(len(shown), 'dead letter')}; --limit shows more.")
    named.note_others()
    return Exit.OK


def show(args: Namespace) -> int:
    """
    Show a dead letter with its message.

    :raises NotFoundError: there is none with this id.
    """
    (letter,) = _find(_selection_of(args), _NamedDags(args), [args.id])
    text = dag_runs.whole_conf(letter.run.key).get("message_json")
    try:
        message = json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        message = None  # message_json shows what it is
    if args.output in ("json", "yaml"):
        output.show(args.output, {**_result(letter), "message": message, "message_json": text})
    else:
        output.show(args.output, None, output.fields(_result(letter)))
        output.write("")
        output.show("json", text if message is None else message)
    return Exit.OK


def _result(letter: StoredDeadLetter) -> dict[str, Any]:
    """The fields of a dead letter, for JSON and YAML output."""
    return {
        **{name: letter.run.conf[name] for name in DEAD_LETTER_ENTRIES},
        "delivery_count": dag_runs.int_or_none(letter.run.conf["delivery_count"]),
        "dag_id": letter.run.dag_id,
        "run_id": letter.run.run_id,
        "state": letter.run.state,
        "time": letter.run.run_after.isoformat(),
        "replays": [{"dag_id": run.dag_id, "state": run.state} for run in letter.replays],
    }


def _row(letter: StoredDeadLetter) -> output.Row:
    """The row of a dead letter in a table."""
    entries = letter.run.conf
    inbox_id, name = entries["inbox_id"] or "", entries["inbox_name"]
    is_known = name not in (None, inbox_id)  # unlike in dead letters of version 0.2.0
    return {
        "message id": letter.message_id,
        "age": output.duration(clock.now() - letter.run.run_after.timestamp()),
        "inbox": name if is_known else inbox_id[: output.SHORT_ID],
        "status": "replayed" if letter.replays else entries["reason"],
        "target DAG": entries["target_dag_id"],
    }


def _selection_of(args: Namespace) -> Selection:
    """
    The dead letters that the options of a command select.

    :raises ValueError: an option is wrong.
    :raises ConfigurationError: there is no such connection of the type Workflow.
    :raises WorkflowError: the inbox was not found by its name.
    """
    inbox: str | None = args.inbox
    # A mistyped connection must not look like one without dead letters.
    hook = None if args.conn_id is None else hook_of(args)
    if inbox is not None and is_id(inbox):
        inbox = inbox.lower()
    elif inbox is not None and hook is not None:
        inbox = hook.get_inbox(inbox)["id"]
    elif inbox is not None:
        raise ValueError(f"--inbox {inbox!r} is not the id of an inbox; with a name give --conn-id too")
    named = {
        "reason": getattr(args, "reason", None),
        "connection_id": args.conn_id,
        "inbox_id": inbox,
    }
    return Selection(
        DEAD_LETTER_PREFIX,
        tuple(args.dag_id) if args.dag_id else None,
        since=_moment_of(getattr(args, "since", None)),
        conf={name: value for name, value in named.items() if value is not None},
    )


def _moment_of(text: str | None) -> datetime | None:
    """
    The moment of ``--since``: some time ago (``2h``), or in ISO 8601 (UTC without a zone).

    :raises ValueError: it names none.
    """
    if text is None:
        return None
    if length := re.fullmatch(r"([0-9]{1,9})([smhd])", text.strip()):
        now = datetime.fromtimestamp(clock.now(), UTC)
        # No run is older than a hundred years.
        return now - min(timedelta(seconds=int(length[1]) * UNITS[length[2]]), timedelta(days=36500))
    if (moment := moments.moment_of(text)) is None:
        raise ValueError(
            "--since must be a length of time such as 30m, 2h or 7d, or a time such as 2026-01-31T08:00,"
            f" not {text!r}"
        )
    return moment


class _NamedDags:
    """
    Takes runs for dead letters only of DAGs that a deployed listener of their connection and inbox names.

    Of DAGs that the command names (``--dag-id``) all are taken.

    :raises TargetError: the database is unreachable.
    """

    def __init__(self, args: Namespace) -> None:
        self._takes_all = bool(args.dag_id)
        self._uses: list[InboxUse] = []
        self._known: dict[tuple[str, str], set[str]] = {}
        self._others: set[str] = set()
        if not self._takes_all:
            with dag_runs.database() as session:
                self._uses = list(inbox_uses(session))

    def taken(self, runs: list[StoredRun]) -> list[StoredRun]:
        """Those of the runs that are dead letters."""
        return [run for run in runs if self._takes_all or self._is_named(run)]

    def _is_named(self, run: StoredRun) -> bool:
        source = (run.conf["connection_id"] or "", run.conf["inbox_id"] or "")
        if source not in self._known:
            self._known[source] = dead_letter_dags(self._uses, *source)
        if run.dag_id in self._known[source]:
            return True
        self._others.add(run.dag_id)
        return False

    def note_others(self) -> None:
        """Say which DAGs have runs that look like dead letters, and were not taken for them."""
        if self._others:
            names = sorted(self._others)
            more = f" and {len(names) - SHOWN_DAGS} more" if len(names) > SHOWN_DAGS else ""
            dags = "DAG" if len(names) == 1 else "DAGs"
            output.note(
                f"Left out: dead letters of the {dags} {', '.join(names[:SHOWN_DAGS])}{more}, which no"
                " deployed listener of their inbox names as dead_letter_dag_id; --dag-id takes them."
            )


def _find(selection: Selection, named: _NamedDags, ids: list[str]) -> list[StoredDeadLetter]:
    """
    The dead letters with these ids, in this order.

    :param ids: ids of messages or of runs.
    :raises NotFoundError: there is none with one of the ids.
    :raises ValueError: there are several with one of the ids.
    """
    by_id: dict[str, list[StoredRun]] = {name: [] for name in ids}
    for run in named.taken(dag_runs.find_by_ids(selection, DEAD_LETTER_ENTRIES, by_id)):
        for name in {run.run_id, str(run.conf["message_id"])} & by_id.keys():
            by_id[name].append(run)
    if missing := [name for name, runs in by_id.items() if not runs]:
        named.note_others()
        more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
        raise NotFoundError(
            f"There is no such dead letter: {', '.join(missing[:3])}{more}; dead-letters list shows them",
            status=404,
        )
    for name, runs in by_id.items():
        if len(runs) > 1:
            which = ", ".join(f"{run.run_id} of {run.dag_id}" for run in runs[:10])
            raise ValueError(
                f"{len(runs)} dead letters have the id {name!r}; give a run id, or --dag-id: {which}"
            )
    chosen = {run.key: run for runs in by_id.values() for run in runs}
    return list(with_replays(list(chosen.values())))


def replay(args: Namespace) -> int:
    """
    Start the runs.

    :return: ``FAULT`` if one of them was rejected; the others are started.
    :raises ValueError: nothing is selected, or an option is wrong.
    :raises NotFoundError: there is none with one of the ids; nothing is started.
    """
    if args.ids and args.all:
        raise ValueError("--all cannot be given with ids of dead letters")
    if not any((args.ids, args.all, args.since, args.reason, args.dag_id, args.conn_id, args.inbox)):
        raise ValueError(
            "nothing is selected: give ids of messages or runs, --since, --reason, --dag-id, --conn-id or"
            " --inbox, or --all"
        )
    replaying, named = _Replaying(args.trigger_dag_id, args.dry_run), _NamedDags(args)
    letters, invalid = _selected(args, named)
    _note_invalid(invalid)
    try:
        for letter in letters:
            replaying.replay(letter)
    finally:
        # Also after an error: the runs were started.
        result = {"dry_run": args.dry_run, **replaying.outcomes, "causes": replaying.causes}
        output.show(args.output, result, output.outcomes("dead letters", replaying.outcomes))
    named.note_others()
    if replaying.causes:
        causes = list(replaying.causes.items())[:SHOWN_CAUSES]
        shown = "; ".join(f"{message_id}: {cause}" for message_id, cause in causes)
        number = replaying.outcomes["rejected"]["count"]
        output.note(f"{number} not replayed, still dead letters: {shown}")
        return Exit.FAULT
    return Exit.OK


def _selected(
    args: Namespace, named: _NamedDags
) -> tuple[Iterable[StoredDeadLetter], Iterable[StoredDeadLetter]]:
    """The selected dead letters, the oldest first; and those of them whose reason is ``invalid``."""
    selection = _selection_of(args)
    if args.ids:
        letters = _find(selection, named, args.ids)
        return letters, [letter for letter in letters if letter.run.conf["reason"] == Reason.INVALID]
    # Not what becomes a dead letter meanwhile: the target may be broken.
    so_far = changed(selection, until=datetime.fromtimestamp(clock.now(), UTC))
    if selection.conf.get("reason", Reason.INVALID) != Reason.INVALID:
        return _oldest_first(so_far, named), ()
    invalid = changed(so_far, conf={**so_far.conf, "reason": Reason.INVALID.value})
    return _oldest_first(so_far, named), _oldest_first(invalid, named)


def _oldest_first(selection: Selection, named: _NamedDags) -> Iterator[StoredDeadLetter]:
    pages = dag_runs.pages(selection, DEAD_LETTER_ENTRIES, size=dag_runs.MAX_PAGE_SIZE, newest_first=False)
    return (letter for page in pages for letter in with_replays(named.taken(page)))


def _note_invalid(letters: Iterable[StoredDeadLetter]) -> None:
    """Say of which messages the schema rejected the payload, and why: a replay does not check it again."""
    causes = [f"{letter.message_id}: {letter.run.conf['cause']}" for letter in letters if not letter.replays]
    if causes:
        more = f"; and {len(causes) - SHOWN_CAUSES} more" if len(causes) > SHOWN_CAUSES else ""
        output.note(
            f"The schema rejected {counted(len(causes), 'message')}, and is not checked again:"
            f" {'; '.join(causes[:SHOWN_CAUSES])}{more}"
        )


class _Replaying:
    """
    Replays dead letters, and counts them.

    :param trigger_dag_id: the DAG to start; None for the target of each.
    :param dry_run: whether to start nothing.
    """

    def __init__(self, trigger_dag_id: str | None, dry_run: bool) -> None:
        self.outcomes: dict[str, Any] = {
            name: {"count": 0, "ids": []}
            for name in ("would_start" if dry_run else "started", "existing", "rejected")
        }
        self.causes: dict[str, str] = {}
        self._trigger_dag_id = trigger_dag_id
        self._dry_run = dry_run
        self._runs = DatabaseRuns()

    def replay(self, letter: StoredDeadLetter) -> None:
        """Start or find the run of a dead letter, or record its rejection."""
        try:
            # What the list knows already needs no reading of a whole conf.
            outcome = "existing" if letter.replays else self._start(letter.run)
        except (NotReplayableError, RunRejected, TargetError) as error:
            outcome = "rejected"
            if len(self.causes) < MAX_IDS:
                self.causes[letter.message_id] = str(error)
        add(self.outcomes[outcome], letter.message_id)

    def _start(self, run: StoredRun) -> str:
        _, outcome = Replay.of(dag_runs.whole_conf(run.key), run.run_id).start(
            self._runs,
            self._trigger_dag_id,
            f"the command line from {run.run_id}",
            search=partial(dag_runs.dags_of_message, since=run.run_after),
            dry_run=self._dry_run,
        )
        return outcome.value
