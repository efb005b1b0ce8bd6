"""
``docs/evidence.md``: what long checks showed. With ``EVIDENCE=1`` a check writes its own row.

    python -m tools.evidence WHAT RESULT COMMAND
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs" / "evidence.md"
TITLES = ("| what | result | command | of | date |", "|---|---|---|---|---|")


def record(title: str, result: str, command: str, page: Path = PAGE) -> None:
    """
    Write the row of a check, if ``EVIDENCE`` is set; it replaces that of the same command.

    :param result: one line.
    :param command: what to run to see it again.
    """
    if not os.environ.get("EVIDENCE"):
        return
    head, titles, rows = page.read_text(encoding="utf-8").partition("\n".join(TITLES) + "\n")
    commit = subprocess.check_output(["git", "rev-parse", "--short", "HEAD"], cwd=PAGE.parent, text=True)
    of = f"{commit.strip()}, Airflow {version('apache-airflow')}, Python {platform.python_version()}"
    row = f"| {title} | {result} | `{command}` | {of} | {datetime.now(UTC):%Y-%m-%d} |"
    other_rows = [line for line in rows.splitlines() if f"| `{command}` |" not in line]
    page.write_text(
        f"{head}{titles}" + "".join(f"{line}\n" for line in sorted([*other_rows, row])), encoding="utf-8"
    )


if __name__ == "__main__":
    record(*sys.argv[1:4])
