"""Log lines, errors and command-line texts have no word that the glossary replaces."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import airflow_provider_workflow

PACKAGE = Path(airflow_provider_workflow.__file__).parent
REPLACED = {
    r"r(ing|ings|ang|ung)|(door)?bells?": "wake-up, or notice",
    r"room": "capacity",
    r"tickets?|custody|fates?": "batch, or outcome",
    r"mend(s|ed|ing)?|cure[sd]?": "fix",
    r"(give|gives|given|gave) back": "release",
    r"hand(s|ed|ing)? (out|over)": "lease, deliver, or hand-off",
    r"(come|comes|came) again": "redelivered",
    r"(run|runs|ran) out": "expire",
    r"precious": "delivery count",
    r"unwanted": "unmatched",
    r"let(s)? go|farewells?|trying on|out of reach": "a plain term",
}
"""Patterns of words that are not used, and what is said in their place."""


def texts(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """The strings of a module that hold more than one word and are no docstrings."""
    apart = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant) or id(node) in apart:
            continue
        if isinstance(node.value, str) and " " in node.value.strip():
            yield node.lineno, node.value


def test_no_text_for_users_has_a_word_that_was_replaced() -> None:
    found = [
        f"{path.relative_to(PACKAGE)}:{line}: {text!r}: say {better}"
        for path in sorted(PACKAGE.rglob("*.py"))
        for line, text in texts(ast.parse(path.read_text()))
        for pattern, better in REPLACED.items()
        if re.search(rf"\b({pattern})\b", text, re.IGNORECASE)
    ]
    assert found == []


def test_a_replaced_word_is_found() -> None:
    tree = ast.parse('"""The bell."""\nlog.info("Inbox %s: the bell rang", name)')
    assert list(texts(tree)) == [(2, "Inbox %s: the bell rang")]
