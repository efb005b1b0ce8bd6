"""
The package only gets smaller.

``structure_limits.toml`` beside this file has the limits. ``make structure LOWER=1`` lowers them to today's
figures; none of them ever rises.
"""

from __future__ import annotations

import pytest

from tools import structure

pytestmark = pytest.mark.slow

LIMITS = structure.limits()


def labels(*, of_path: bool) -> list[str]:
    """The figures that have a limit: those of the path of a message, or the others."""
    return [label for label in LIMITS if (" per message, " in label) is of_path]


def check(label: str, figures: structure.Figures, names: structure.Names) -> None:
    """Compare a figure with its limit."""
    text = "\n".join(names.get(label, []))
    assert figures[label] <= LIMITS[label], f"{label}: {figures[label]:g}, at most {LIMITS[label]:g}\n{text}"


@pytest.mark.parametrize("label", labels(of_path=False))
def test_the_package_does_not_grow(label: str) -> None:
    check(label, *structure.measure())
