"""Text has no word that the glossary replaces: logs, errors, documentation, docstrings and comments."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterable, Iterator
from pathlib import Path

import airflow_provider_workflow

PACKAGE = Path(airflow_provider_workflow.__file__).parent
ROOT = PACKAGE.parent
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
    r"let(s)? go|farewells?|trying on|out of reach|within reach": "a plain term",
}
"""Patterns of words that are not used, and what is said in their place."""
NOT_PLAIN = {
    r"whoever|nobody|somebody|anybody": "who does it: the caller, a user, a process",
    r"in vain|anew|for ever|all the same": "without success, again, without end, anyway",
    r"in clear": "unencrypted, or in plain text",
    r"(is|are) to be|as wanted|as asked": "must be, or the state that is meant",
    r"heard|news|told of": "notified, or a wake-up",
    r"come[s]? (back|twice)|what becomes? of|what became of": "is redirected, redelivered; the outcome",
    r"once more|may pass|goes wrong|go wrong": "again; is transient; fails",
}
"""Patterns that docstrings, comments and the documentation do not have either."""
NOT_USED = {**REPLACED, **NOT_PLAIN}
FRONT_PAGES = ("README", "CONTRIBUTING", "SECURITY")
MODULES = sorted(PACKAGE.rglob("*.py"))
PAGES = sorted(
    path
    for path in (*(ROOT / f"{name}.md" for name in FRONT_PAGES), *(ROOT / "docs").rglob("*.md"))
    if path.name != "glossary.md"
)
HEADINGS = r"What goes wrong"
"""A heading of the documentation that is kept, as links lead to it."""
CODE = re.compile(r"^```.*?^```|`[^`]*`|\]\([^)]*\)", re.DOTALL | re.MULTILINE)

Text = tuple[int, str]


def strings(tree: ast.AST) -> Iterator[Text]:
    """The strings of a module that hold more than one word and are no docstrings."""
    apart = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant) or id(node) in apart:
            continue
        if isinstance(node.value, str) and " " in node.value.strip():
            yield node.lineno, node.value


def remarks(source: str) -> Iterator[Text]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield node.lineno, CODE.sub("", str(node.value.value).replace("``", "`"))
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def prose(page: str) -> Iterator[Text]:
    text = CODE.sub(lambda code: "\n" * code[0].count("\n"), page)
    yield from ((number, re.sub(HEADINGS, "", line)) for number, line in enumerate(text.splitlines(), 1))


def findings(words: dict[str, str], path: Path, texts: Iterable[Text]) -> list[str]:
    return [
        f"{path.relative_to(ROOT)}:{line}: {text!r}: say {better}"
        for line, text in texts
        for pattern, better in words.items()
        if re.search(rf"\b({pattern})\b", text, re.IGNORECASE)
    ]


def test_no_text_for_users_has_a_word_that_was_replaced() -> None:
    findings_of_pages = [
        finding
        for path in MODULES
        for finding in findings(REPLACED, path, strings(ast.parse(path.read_text())))
    ]
    assert findings_of_pages == []


def test_docstrings_and_comments_are_plain() -> None:
    assert len(MODULES) > 100
    findings_of_modules = [
        finding for path in MODULES for finding in findings(NOT_USED, path, remarks(path.read_text()))
    ]
    assert findings_of_modules == []


def test_the_documentation_is_plain() -> None:
    assert len(PAGES) > 20
    assert [finding for path in PAGES for finding in findings(NOT_USED, path, prose(path.read_text()))] == []
