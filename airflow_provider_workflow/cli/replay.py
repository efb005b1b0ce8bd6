"""``dead-letters replay``: starts the runs that the messages of dead letters were meant to start."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from airflow_provider_workflow import clock
from airflow_provider_workflow.cli import counting, output
from airflow_provider_workflow.cli.arguments import interval_of, now
from airflow_provider_workflow.cli.dead_letters import find, selection_of
from airflow_provider_workflow.cli.running import Exit
from airflow_provider_workflow.database import dag_runs
from airflow_provider_workflow.database.dag_runs import ENTRIES, StoredDeadLetter, with_replays

if TYPE_CHECKING:
    from airflow_provider_workflow.dispatch.runs import Runs

MOST_IDS = 100
SHOWN_CAUSES = 10


def replay(args: Namespace) -> int:
    """
    Start the runs.

    :return: ``FAULT`` if one of them was rejected; the others are started.
    :raises ValueError: nothing is selected, or an option is wrong.
    :raises NoSuchDeadLetterError: there is none with one of the ids; nothing is started.
    """
    from airflow_provider_workflow.database.runs import DatabaseRuns

    _check(args)
    replaying = Replaying(DatabaseRuns(), args.trigger_dag_id, args.dry_run, interval_of("--rate", args.rate))
    letters = _selected(args)
    try:
        with counting.live(replaying.progress):
            for letter in letters:
                replaying.replay(letter)
    finally:
        # Also after an error: the runs were started.
        output.show(args.output, replaying.result(), replaying.rows())
    if replaying.causes:
        output.note(replaying.rejected_text())
        return Exit.FAULT
    return Exit.OK


def _check(args: Namespace) -> None:
    """
    :raises ValueError: nothing is selected, or the arguments contradict each other.
    """
    if args.ids and args.all:
        raise ValueError("--all cannot be given with ids of dead letters")
    if not any(
        (args.ids, args.all, args.since, args.reason, args.dag_id, args.conn_id, args.inbox),
    ):
        raise ValueError(
            "nothing is selected: give ids of messages or runs, --since, --reason, --dag-id, --conn-id or"
            " --inbox, or --all"
        )


def _selected(args: Namespace) -> Iterator[StoredDeadLetter]:
    """The selected dead letters, the oldest first; those with an id are looked for at once."""
    selection = selection_of(args)
    if args.ids:
        return iter(find(selection, args.ids))
    # A message that becomes a dead letter meanwhile is not replayed: its target may be broken.
    so_far = replace(selection, until=now())
    pages = dag_runs.pages(so_far, ENTRIES, size=dag_runs.PAGE, newest_first=False)
    return (each for page in pages for each in with_replays(page))


@dataclass
class Replaying:
    """
    Replays dead letters, and counts them.

    :param trigger_dag_id: the DAG to start; None for the target of each.
    :param dry_run: whether to start nothing.
    :param interval: seconds from one start to the next.
    :param outcomes: the message ids by outcome: all counted, the first 100 kept.
    :param causes: why the first 100 rejected ones were rejected, by message id.
    """

    runs: Runs
    trigger_dag_id: str | None = None
    dry_run: bool = False
    interval: float = 0.0
    outcomes: dict[str, dict[str, Any]] = field(default_factory=dict)
    causes: dict[str, str] = field(default_factory=dict)
    _broken: dict[str, str | None] = field(default_factory=dict)
    _next_at: float = 0.0

    def __post_init__(self) -> None:
        first = "would_start" if self.dry_run else "started"
        self.outcomes = {name: {"count": 0, "ids": []} for name in (first, "existing", "rejected")}

    def replay(self, letter: StoredDeadLetter) -> None:
        """Start the run of a dead letter, or find it, or record why Airflow rejects it."""
        if letter.replays:
            self._count("existing", letter)
            return
        try:
            self._count(self._start(letter), letter)
        except _Rejected as rejected:
            self._count("rejected", letter)
            if len(self.causes) < MOST_IDS:
                self.causes[letter.message_id] = str(rejected)

    def _start(self, letter: StoredDeadLetter) -> str:
        from airflow_provider_workflow.dispatch.rejections import RunRejected, TargetError
        from airflow_provider_workflow.dispatch.replay import NotADeadLetterError, NoTargetError, Replay

        try:
            found = Replay.of(dag_runs.whole_conf(letter.run.key))
        except NotADeadLetterError as error:
            raise _Rejected(str(error)) from None
        if found.dead_letter_run_id != letter.run.run_id:
            raise _Rejected("its run id is not that of a dead letter of its message")
        dag_id = self.trigger_dag_id or found.target_dag_id
        if dag_id is None:
            raise _Rejected("it has no target, as no DAG rejected it: give --trigger-dag-id")
        if (broken := self._problem_of(dag_id)) is not None:
            raise _Rejected(broken)
        if self.dry_run:
            return "would_start"
        self._wait()
        try:
            _, outcome = found.start(
                self.runs, self.trigger_dag_id, f"the command line from {letter.run.run_id}"
            )
        except TargetError as error:
            self._broken[dag_id] = str(error)
            raise _Rejected(str(error)) from None
        except (RunRejected, NoTargetError) as error:
            raise _Rejected(str(error)) from None
        return outcome.value

    def _problem_of(self, dag_id: str) -> str | None:
        """Why no run of a DAG can be started, which is checked once; None if nothing is known."""
        from airflow_provider_workflow.dispatch.rejections import TargetError

        if dag_id not in self._broken:
            try:
                self.runs.check_target(dag_id)
                self._broken[dag_id] = None
            except TargetError as error:
                self._broken[dag_id] = str(error)
        return self._broken[dag_id]

    def _wait(self) -> None:
        """Wait until the next run may be started."""
        if self.interval:
            clock.sleep(max(0.0, self._next_at - clock.monotonic()))
            self._next_at = clock.monotonic() + self.interval

    def _count(self, outcome: str, letter: StoredDeadLetter) -> None:
        counted = self.outcomes[outcome]
        counted["count"] += 1
        if len(counted["ids"]) < MOST_IDS:
            counted["ids"].append(letter.message_id)

    def progress(self) -> str:
        """The counts so far in one line."""
        numbers = [f"{each['count']} {name.replace('_', ' ')}" for name, each in self.outcomes.items()]
        return f"dead letters: {', '.join(numbers)}"

    def result(self) -> dict[str, Any]:
        """The counts, for JSON and YAML output."""
        return {"dry_run": self.dry_run, **self.outcomes, "causes": self.causes}

    def rows(self) -> list[output.Row]:
        """The counts, with the first ids, for a table."""
        return [
            {"dead letters": name, "count": each["count"], "first ids": counting.first_ids(each)}
            for name, each in self.outcomes.items()
        ]

    def rejected_text(self) -> str:
        """The rejected ones in one sentence."""
        shown = "; ".join(f"{name}: {cause}" for name, cause in list(self.causes.items())[:SHOWN_CAUSES])
        number = self.outcomes["rejected"]["count"]
        return f"{number} were not replayed, and stay dead letters: {shown}"


class _Rejected(Exception):
    """A dead letter was not replayed; the text says why."""
