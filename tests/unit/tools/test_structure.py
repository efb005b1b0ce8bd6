"""``python -m tools.structure``: what is counted, on a small package."""

from __future__ import annotations

import json
from pathlib import Path
from textwrap import dedent

import pytest

from tools import structure


class Project:
    """A package ``shop`` and its documentation, in a folder of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.write("shop/__init__.py", "")
        (folder / "docs").mkdir()

    def write(self, path: str, text: str) -> None:
        """Write a file of the project."""
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(dedent(text))

    @property
    def package(self) -> structure.Package:
        """The package as it is now."""
        return structure.Package(self.folder / "shop")

    def measure(self) -> tuple[structure.Figures, structure.Names]:
        """Its figures, and the names of what was counted."""
        return structure.measure(self.package, self.folder / "docs")


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

    assert project.package.modules["till"].code_lines == 4


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

    assert list(project.package.modules["till"].functions) == [("till.total", 4)]


def test_functions_are_counted_by_their_length(project: Project) -> None:
    for lines in (15, 16, 40, 41):
        project.write(f"shop/of_{lines}.py", "def pay():\n" + "    pass\n" * (lines - 1))
    figures, names = project.measure()

    assert figures["functions"] == 4
    assert figures["functions up to 15 lines, %"] == 25
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

    assert names["import cycles"] == ["a, b, c"]
    assert figures["modules in an import cycle"] == 3


def test_two_cycles_that_share_no_module_are_two(project: Project) -> None:
    for one, other in (("a", "b"), ("b", "a"), ("c", "d"), ("d", "c")):
        project.write(f"shop/{one}.py", f"from shop.{other} import thing\n")
    project.write("shop/a.py", "from shop.b import thing\nfrom shop.c import thing\n")

    assert project.package.cycles == [["a", "b"], ["c", "d"]]


def test_modules_with_one_importer_are_found(project: Project) -> None:
    project.write("shop/once.py", "pass\n" * 59)
    project.write("shop/once_but_long.py", "pass\n" * 60)
    project.write("shop/twice.py", "")
    project.write("shop/shelf/__init__.py", "")
    project.write("shop/a.py", "from shop import once, once_but_long, shelf\nfrom shop.twice import thing\n")
    project.write("shop/b.py", "import shop.twice\n")
    figures, names = project.measure()

    assert names["modules with one importer"] == ["once <- a", "once_but_long <- a"]
    assert figures["modules with one importer"] == 2
    assert figures["modules under 60 lines with one importer"] == 1


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("docs/till.md", "    from shop.till import Till\n"),
        ("docs/examples/pay.py", "import shop.till\n"),
        ("docs/api/till.md", ".. autoclass:: shop.till.Till\n"),
        ("shop/get_provider_info.py", 'HOOKS = f"{PACKAGE}.till.Till"\n'),
    ],
)
def test_a_module_that_users_may_name_is_not_among_them(project: Project, path: str, text: str) -> None:
    project.write("shop/till.py", "")
    project.write("shop/a.py", "import shop.till\n")
    project.write("docs/architecture.md", "The module shop.till holds money.\n")
    assert project.measure()[0]["modules with one importer"] == 1

    project.write(path, text)
    assert project.measure()[0]["modules with one importer"] == 0


def test_the_table_shows_stored_figures_beside_those_of_now() -> None:
    lines = list(structure.table({"files": 1200, "import cycles": 3.5}, {"files": 1210, "gone": 1}))

    assert [line.split() for line in lines] == [
        ["now", "limit", "before", "change"],
        ["files", "1,200", "1,210", "-10"],
        ["import", "cycles", "3.5", "0"],
    ]
    assert list(structure.table({"files": 1200}))[1:] == ["files     1,200"]


def test_what_is_stored_can_be_compared_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    passed = {"files per message": 2.0}, {"functions per message": ["till.py: pay, total"]}
    monkeypatch.setattr(structure, "measure", lambda: ({"files": 1.0}, {}))
    monkeypatch.setattr(structure, "trace", lambda: passed)
    stored = tmp_path / "before.json"
    structure.main(["--json", str(stored)])
    capsys.readouterr()
    structure.main(["--against", str(stored), "--list"])
    shown = capsys.readouterr().out

    assert json.loads(stored.read_text())["names"]["functions per message"] == ["till.py: pay, total"]
    assert "files per message         2                   2        +0\n" in shown
    assert shown.endswith("functions per message:\n  till.py: pay, total\n")


def test_a_trace_that_fails_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(structure, "PATHS", {"nowhere": "nowhere"})

    with pytest.raises(RuntimeError, match="KeyError: 'nowhere'"):
        structure.trace()


def test_pytest_counts_the_test_cases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "test_till.py").write_text("def test_pays(): ...\ndef test_returns(): ...\n")
    (tmp_path / "test_broken.py").write_text("import shop.nothing\n")
    monkeypatch.setattr(structure, "ROOT", tmp_path)
    monkeypatch.setattr(structure, "TESTS", ("test_till.py",))

    assert structure.count_tests() == {"test cases, test_till.py": 2}
    monkeypatch.setattr(structure, "TESTS", ("test_broken.py",))
    with pytest.raises(RuntimeError, match=r"cannot collect test_broken\.py"):
        structure.count_tests()
