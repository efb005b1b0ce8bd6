"""The package only gets smaller; ``structure_limits.toml`` beside this file has the limits."""

from __future__ import annotations

from pathlib import Path

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
    assert figures[label] >= LIMITS[label] / 2, f"most of {label} was not counted"


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


def test_the_length_of_a_function_is_without_its_docstring_and_decorators(tmp_path: Path) -> None:
    for lines, found in ((40, []), (41, ["till.pay (41 lines)"])):
        body = "    pass\n" * (lines - 1)
        (tmp_path / "till.py").write_text(f'@cache\ndef pay():\n    """Pay.\n\n    All.\n    """\n{body}')
        _, names = structure.measure(tmp_path)

        assert names.get("functions over 40 lines", []) == found
