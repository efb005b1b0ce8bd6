"""The page of evidence, whose rows the checks write."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from tools import evidence

pytestmark = pytest.mark.program


def rows(page: Path) -> list[list[str]]:
    _, _, table = page.read_text().partition("\n".join(evidence.TITLES) + "\n")
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]


def test_a_row_replaces_that_of_the_same_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "evidence.md"
    page.write_text(evidence.PAGE.read_text())
    before = len(rows(page))
    evidence.record("histories", "1 of 2 broke a rule", "make it", page)
    assert len(rows(page)) == before

    monkeypatch.setenv("EVIDENCE", "1")
    for result in ("1 of 2 broke a rule", "0 of 2 broke a rule"):
        evidence.record("histories", result, "make it", page)
    evidence.record("histories", "0 of 3 broke a rule", "make it SEED=3", page)

    (row,) = [row for row in rows(page) if row[2] == "`make it`"]
    assert (row[1], row[4]) == ("0 of 2 broke a rule", f"{datetime.now(UTC):%Y-%m-%d}")
    assert len(rows(page)) == before + 2
    assert page.read_text().startswith(evidence.PAGE.read_text().partition("|")[0])
