"""The target DAGs of a crash test are broken in each way, in turn, and mended each time."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from tests.crash.targets import BREAKS, FILE, Targets

WHOLE = Path(__file__).parents[2] / "crash" / "dags" / FILE


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copy(WHOLE, tmp_path)
    return tmp_path


def turns(folder: Path, seconds: int) -> list[str]:
    """What the file was like in each of these seconds."""
    targets, said = Targets(folder, random.Random(1), now=0), []
    for second in range(seconds):
        targets.turn(second)
        text = (folder / FILE).read_text()
        kinds = [kind for kind, spoil in BREAKS.items() if text == spoil(WHOLE.read_text())]
        said.append("whole" if text == WHOLE.read_text() else kinds[0])
    return said


def test_every_kind_of_break_comes_within_two_minutes_and_is_mended(folder: Path) -> None:
    said = turns(folder, 120)

    changes = [now for before, now in zip(["", *said], said, strict=False) if now != before]
    assert changes[0::2] == ["whole"] * len(changes[0::2])
    assert set(changes[1::2]) == set(BREAKS)


def test_the_end_of_the_sabotage_mends_them(folder: Path) -> None:
    targets = Targets(folder, random.Random(1), now=0)
    assert targets.turn(10) in BREAKS

    targets.mend()
    assert (folder / FILE).read_text() == WHOLE.read_text()
    assert [each.name for each in folder.iterdir()] == [FILE]


@pytest.mark.parametrize("kind", BREAKS)
def test_a_break_changes_the_file(kind: str) -> None:
    assert BREAKS[kind](WHOLE.read_text()) != WHOLE.read_text()
