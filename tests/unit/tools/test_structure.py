"""``python -m tools.structure``: what is counted, on a small package."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from tools import structure


class Project:
    """A package ``shop`` in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.write("shop/__init__.py", "")

    def write(self, path: str, text: str) -> None:
        """Write a file of the project."""
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(dedent(text))

    def measure(self) -> tuple[structure.Figures, structure.Names]:
        """Its figures, and the names of what was counted."""
        return structure.measure(self.folder / "shop")


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def test_concepts_are_classes_and_public_functions(project: Project) -> None:
    project.write(
        "shop/till.py",
        """\
        class _Till:
            def open(self): ...
            def _lock(self): ...
        def pay(): ...
        def _count(): ...
        """,
    )

    assert project.measure()[0]["concepts, without emulator"] == 3


def test_the_width_of_a_line_is_the_mean_of_those_that_are_not_blank(project: Project) -> None:
    project.write("shop/till.py", "A = 1\n\nB = 100\n")

    assert project.measure()[0]["mean width of a line"] == 6


def test_a_limit_is_lowered_to_its_figure_and_never_raised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(structure, "LIMITS", tmp_path / "limits.toml")
    structure.LIMITS.write_text('# Why.\n"files" = 7\n"mean width of a line" = 40.5\n"lines" = 90\n')
    structure.lower({"files": 6, "mean width of a line": 39.25, "lines": 100})

    assert (
        structure.LIMITS.read_text() == '# Why.\n"files" = 6\n"mean width of a line" = 39.25\n"lines" = 90\n'
    )


def test_the_length_of_a_function_is_without_its_docstring_and_decorators(project: Project) -> None:
    for lines in (40, 41):
        body = "    pass\n" * (lines - 1)
        project.write(f"shop/of_{lines}.py", f'@cache\ndef pay():\n    """Pay.\n\n    All.\n    """\n{body}')

    assert project.measure()[1]["functions over 40 lines"] == ["of_41.pay (41 lines)"]
