"""
``make evidence``: the long measurements that a release rests on. Each has a row on ``docs/evidence.md``.

A row says which commit was measured, and its verdict: ``kept`` if the command ended with success and said
what it saw, ``BROKEN`` otherwise. It holds for other commits with the same code (``CODE``). What has such a
row is not measured again, so what was interrupted goes on; a word of a title or command (``ONLY``) measures
again whatever has it.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

PAGE = "docs/evidence.md"
CODE = (":/", ":(top,exclude)*.md", ":(top,exclude,glob)docs/*", ":(top,exclude)docs/images")
"""What a measurement depends on, as Git names paths: all but the documentation. Examples of DAGs are code."""
KEPT, BROKEN, NOT_MEASURED = "kept", "BROKEN", "not measured"
AFTER_BROKEN = "; an earlier try with this code was BROKEN"
RESULT = "Result: "
"""A line of output that begins like this says what a program saw."""
TITLES = ("check", "verdict", "result", "command", "commit", "commits behind {head}", "date")
COMMIT_LENGTH = 10
SERVERS = ("WORKFLOW_TEST_POSTGRES", "WORKFLOW_TEST_REDIS")


class EvidenceError(Exception):
    """Nothing was measured, or what was measured is of no commit; the text says why."""


@dataclass(frozen=True)
class Check:
    """
    :param title: what it is.
    :param command: what runs it.
    :param python: the interpreter that it needs.
    :param servers: the environment variables with addresses that it needs.
    """

    title: str
    command: str
    python: str = ""
    servers: tuple[str, ...] = ()

    @property
    def missing(self) -> list[str]:
        """What it needs and is not here."""
        missing = [f"{name} is not set" for name in self.servers if not os.environ.get(name)]
        # A stand-in for an interpreter that is not installed is found, and fails.
        if (
            self.python
            and subprocess.run(["sh", "-c", f"{self.python} --version"], capture_output=True).returncode
        ):
            missing.append(f"{self.python} is not installed")
        return missing


@dataclass(frozen=True)
class Row:
    """
    :param verdict: ``kept`` or ``BROKEN``.
    :param result: one line.
    :param commit: that was measured.
    :param date: on which it began.
    """

    verdict: str
    result: str
    commit: str
    date: str

    @property
    def is_broken_once(self) -> bool:
        """Whether a try was ``BROKEN``: this one, or one before it of the same code."""
        return self.verdict == BROKEN or self.result.endswith(AFTER_BROKEN)


def checks(root: Path) -> list[Check]:
    """All that a release needs."""
    (matrix,) = re.findall(r"^MATRIX \?= (.+)$", (root / "Makefile").read_text(), re.MULTILINE)
    traced = "AIRFLOW=3.4 PYTHON=python3.11 VENV=.matrix/airflow-3.4-python3.11"
    return [
        *(
            Check("50,000 histories", f"make simulate SEEDS=50000 SEED={seed}")
            for seed in range(0, 200_000, 50_000)
        ),
        Check("seeded faults", "make mutations"),
        Check("traces (Airflow 3.4)", f"make e2e {traced} E2E=tests/e2e/test_traces.py", "python3.11"),
        *(
            Check("matrix (Airflow:Python)", f"make test-matrix MATRIX={pair}", f"python{pair.split(':')[1]}")
            for pair in matrix.split()
        ),
        Check(
            "crash test of all recipes",
            "make crash-test MESSAGES=10000 MINUTES=60 KILLS=100",
            servers=SERVERS,
        ),
        Check("soak", "make soak MINUTES=120 RATE=0.1"),
        Check("other providers", "make bench ONLY=peers", servers=(*SERVERS, "WORKFLOW_TEST_RABBITMQ")),
    ]


def print_result(text: str) -> None:
    """Say in one line what a program saw, and with which versions; ``make evidence`` puts it into the row."""
    print(
        f"{RESULT}{text} (Airflow {version('apache-airflow')}, Python {platform.python_version()})",
        flush=True,
    )


def git(root: Path, *arguments: str) -> str:
    return subprocess.run(
        ["git", *arguments], cwd=root, check=True, capture_output=True, text=True
    ).stdout.strip()


def difference(root: Path, commit: str) -> str:
    """How the code of the working tree differs from that of a commit, in words; "" if it does not."""
    try:
        changed = git(root, "diff", "--name-only", commit, "--", *CODE)
    except subprocess.CalledProcessError:
        return f"{commit} is no commit of this clone"
    files = [
        *changed.splitlines(),
        *git(root, "ls-files", "--others", "--exclude-standard", "--", *CODE).splitlines(),
    ]
    return f"{len(files)} files of code differ from {commit}, such as {files[0]}" if files else ""


def read(root: Path) -> dict[str, Row]:
    """The rows of the page, by their command."""
    rows = {}
    for line in (root / PAGE).read_text(encoding="utf-8").splitlines():
        cells = line.strip("| ").split(" | ")
        if len(cells) == len(TITLES) and cells[1] in (KEPT, BROKEN):
            _, verdict, result, command, commit, _, date = cells
            rows[command.strip("`")] = Row(verdict, result, commit, date)
    return rows


def write(root: Path, rows: Mapping[str, Row]) -> None:
    """Write the table of the page: each check, with its row if it has one, and how far that is behind."""
    text = (root / PAGE).read_text(encoding="utf-8").partition(f"| {TITLES[0]} |")[0]
    head = git(root, "rev-parse", f"--short={COMMIT_LENGTH}", "HEAD")
    lines = [[title.format(head=head) for title in TITLES], ["---"] * len(TITLES)]
    for check in checks(root):
        row = rows.get(check.command, Row(NOT_MEASURED, "", "", ""))
        behind = distance(root, row.commit) if row.commit else ""
        lines.append(
            [check.title, row.verdict, row.result, f"`{check.command}`", row.commit, behind, row.date]
        )
    table = "".join(f"| {' | '.join(cells)} |\n" for cells in lines)
    (root / PAGE).write_text(f"{text}{table}", encoding="utf-8")


def distance(root: Path, commit: str) -> str:
    """How many commits came after one, and whether they changed code."""
    try:
        count = git(root, "rev-list", "--count", f"{commit}..HEAD")
    except subprocess.CalledProcessError:
        return "unknown"
    return f"{count}, of documentation" if count != "0" and not difference(root, commit) else count


def fault(root: Path, check: Check) -> str:
    """Why the page does not show that a check holds for the code of the working tree; "" if it does."""
    row = read(root).get(check.command)
    if row is None:
        reason = NOT_MEASURED
    elif row.verdict != KEPT:
        reason = f"{row.verdict}: {row.result}"
    else:
        reason = difference(root, row.commit)
    return f"{check.command}: {reason}" if reason else ""


def faults(root: Path) -> list[str]:
    """Why the page does not show that the code of the working tree holds."""
    return [reason for check in checks(root) if (reason := fault(root, check))]


def measure(root: Path, check: Check) -> None:
    """
    Run a check, and write its row.

    :raises EvidenceError: the code is not that of a commit, or something is missing; then no row is written.
    """
    if check.missing:
        raise EvidenceError(f"{check.command} was not tried: {', '.join(check.missing)}.")
    if changes := difference(root, "HEAD"):
        raise EvidenceError(f"Commit, stash or remove first what is measured: {changes}.")
    commit = git(root, "rev-parse", f"--short={COMMIT_LENGTH}", "HEAD")
    date = f"{datetime.now(UTC):%Y-%m-%d}"
    print(f"== {check.command}", flush=True)
    row = Row(*outcome(root, check.command), commit, date)
    if changes := difference(root, commit):
        raise EvidenceError(f"{check.command} is {row.verdict}, but of no commit: meanwhile {changes}.")
    rows = read(root)
    before = rows.get(check.command)
    if before and before.is_broken_once and not difference(root, before.commit):
        row = replace(row, result=row.result + AFTER_BROKEN)
    write(root, {**rows, check.command: row})
    print(f"== {row.verdict}: {check.command}", flush=True)


def outcome(root: Path, command: str) -> tuple[str, str]:
    """Run a command, and show what it prints; return verdict and result."""
    # What decides how a check is run stands in its command alone: variables of the Makefile are words
    # without an underscore, as are those with which one make starts another.
    environment = {
        name: value
        for name, value in os.environ.items()
        if ("_" in name and not name.startswith("AIRFLOW_")) or name in ("HOME", "LANG", "PATH", "TMPDIR")
    }
    results = []
    with subprocess.Popen(
        shlex.split(command),
        cwd=root,
        env={**environment, "PYTHONUNBUFFERED": "1"},
        text=True,
        errors="replace",
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as process:
        assert process.stdout
        try:
            for line in process.stdout:
                print(line, end="", flush=True)
                if line.startswith(RESULT):
                    results.append(line.removeprefix(RESULT).strip().replace("|", "/"))
        except BaseException:
            process.terminate()
            raise
    if process.returncode == 0 and results:
        return KEPT, "; ".join(results)
    return BROKEN, "; ".join([*results, f"ended with code {process.returncode}"])


def main(arguments: list[str], root: Path | None = None) -> int:
    """Measure what has no row of this code; return 0 if all of it was kept."""
    parser = argparse.ArgumentParser(prog="make evidence", description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument(
        "only", nargs="*", help="measure again what has one of these words in title or command"
    )
    only, root = parser.parse_args(arguments).only, root or Path.cwd()
    chosen = [
        check
        for check in checks(root)
        if not only or any(word in f"{check.title} {check.command}" for word in only)
    ]
    for check in chosen:
        row = read(root).get(check.command)
        if row and not only and not difference(root, row.commit):
            print(f"== {row.verdict}, with this code: {check.command}")
            continue
        try:
            measure(root, check)
        except EvidenceError as error:
            print(f"== {error}", file=sys.stderr)
    reasons = [reason for check in chosen if (reason := fault(root, check))]
    print(f"{len(chosen) - len(reasons)} of {len(chosen)} were kept with this code.", *reasons, sep="\n  ")
    return 1 if reasons or not chosen else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
