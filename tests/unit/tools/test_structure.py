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

    @property
    def modules(self) -> dict[str, structure.Module]:
        """Its modules as they are now."""
        return structure.read(self.folder / "shop")

    def measure(self) -> tuple[structure.Figures, structure.Names]:
        """Its figures, and the names of what was counted."""
        return structure.measure(self.folder / "shop")


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def test_blank_lines_comments_and_docstrings_are_no_code(project: Project) -> None:
    project.write(
        "shop/till.py",
        '''\
        """A till.

        It holds money.
        """

        # Cents.
        AMOUNT = 5  # so far
        """What is in it."""

        def greet():
            "Say something."
            return """Hello,

            and goodbye"""
        ''',
    )

    assert project.modules["till"].code_lines == 4


def test_the_emulator_is_counted_apart(project: Project) -> None:
    project.write("shop/till.py", "A = 1\n")
    project.write("shop/emulator/till.py", "A = 1\nB = 2\n")
    figures, _ = project.measure()

    assert (figures["files, emulator"], figures["files, without emulator"]) == (1, 2)
    assert (figures["lines, emulator"], figures["lines, without emulator"]) == (2, 1)
    assert (figures["lines of code, emulator"], figures["lines of code, without emulator"]) == (2, 1)


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
    project.write(
        "shop/till.py",
        '''\
        @cache
        def total(
            prices,
        ):
            """Add up.

            All of them.
            """
            return sum(prices)
        ''',
    )

    assert list(project.modules["till"].functions) == [("till.total", 4)]


def test_functions_are_counted_by_their_length(project: Project) -> None:
    for lines in (40, 41):
        project.write(f"shop/of_{lines}.py", "def pay():\n" + "    pass\n" * (lines - 1))
    figures, names = project.measure()

    assert figures["functions"] == 2
    assert names["functions over 40 lines"] == ["of_41.pay (41 lines)"]


def test_imports_within_functions_and_for_types_alone_make_a_cycle(project: Project) -> None:
    project.write(
        "shop/a.py",
        """\
        from typing import TYPE_CHECKING
        if TYPE_CHECKING:
            from shop.b import B
        """,
    )
    project.write("shop/b.py", "def b():\n    from shop import c\n")
    project.write("shop/c.py", "import shop.a\n")
    project.write("shop/d.py", "from shop.a import A\nfrom shop.e import E\n")
    project.write("shop/e.py", "import os\n")
    figures, names = project.measure()

    assert figures["import cycles"] == 1
    assert set(names["import cycles"][0].split(" -> ")) == {"a", "b", "c"}

    project.write("shop/c.py", "")
    assert project.measure()[0]["import cycles"] == 0


def test_the_table_shows_figures_beside_their_limits_and_the_list_names_them(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    passed = {"files per message": 2.0}, {"functions per message": ["till.py: pay, total"]}
    monkeypatch.setattr(structure, "measure", lambda: ({"files": 1.0}, {}))
    monkeypatch.setattr(structure, "limits", lambda: {"files": 1210})
    monkeypatch.setattr(structure, "trace", lambda: passed)
    structure.main(["--list"])
    shown = capsys.readouterr().out

    assert "files                     1     1,210\nfiles per message         2\n" in shown
    assert shown.endswith("functions per message:\n  till.py: pay, total\n")


def test_a_trace_that_fails_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(structure, "PATHS", {"nowhere": "nowhere"})

    with pytest.raises(RuntimeError, match="KeyError: 'nowhere'"):
        structure.trace()
