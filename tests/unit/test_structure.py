"""The package only gets smaller; ``structure_limits.toml`` beside this file has the limits."""

from __future__ import annotations

import pytest

from tools import structure

pytestmark = pytest.mark.slow

LIMITS = structure.limits()


def labels(*, of_path: bool) -> list[str]:
    """The figures that have a limit: those of the path of a message, or the others."""
    return [label for label in LIMITS if (" per message, " in label) is of_path]


def check(label: str, figures: structure.Figures, names: structure.Names) -> None:
    text = "\n".join(names.get(label, []))
    assert figures[label] <= LIMITS[label], f"{label}: {figures[label]:g}, at most {LIMITS[label]:g}\n{text}"


@pytest.mark.parametrize("label", labels(of_path=False))
def test_the_package_does_not_grow(label: str) -> None:
    check(label, *structure.measure())


SINCE = pytest.mark.since(3, 3, "the task state store, which the traced tasks use,")


@pytest.fixture(scope="module")
def traced() -> tuple[structure.Figures, structure.Names]:
    """Both traces, which run side by side in processes of their own."""
    return structure.trace()


@SINCE
@pytest.mark.parametrize("label", labels(of_path=True))
def test_no_path_of_a_message_grows(traced: tuple[structure.Figures, structure.Names], label: str) -> None:
    check(label, *traced)
    assert traced[0][label] > LIMITS[label] / 2, "the trace has missed most of the path"
