"""``python -m tools.structure``: what is counted, on a small package."""

from __future__ import annotations

from pathlib import Path

from tools import structure


def measured(folder: Path, till: str) -> tuple[structure.Figures, structure.Names]:
    """The figures of a package with one module, and the names of what was counted."""
    package = folder / "shop"
    package.mkdir(exist_ok=True)
    (package / "__init__.py").touch()
    (package / "till.py").write_text(till)
    return structure.measure(package)


def test_concepts_are_classes_and_public_functions(tmp_path: Path) -> None:
    till = "class _Till:\n    def open(self): ...\n    def _lock(self): ...\n"
    figures, _ = measured(tmp_path, f"{till}def pay(): ...\ndef _count(): ...\n")

    assert figures["concepts, without emulator"] == 3


def test_the_length_of_a_function_is_without_its_docstring_and_decorators(tmp_path: Path) -> None:
    for lines, found in ((40, []), (41, ["till.pay (41 lines)"])):
        body = "    pass\n" * (lines - 1)
        _, names = measured(tmp_path, f'@cache\ndef pay():\n    """Pay.\n\n    All.\n    """\n{body}')

        assert names.get("functions over 40 lines", []) == found
