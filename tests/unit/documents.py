"""What stands in the README and in the pages of ``docs/``, for the tests that run it."""

from __future__ import annotations

import re
import shlex
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = {
    str(path.relative_to(ROOT)): path.read_text()
    for path in (*sorted(ROOT.glob("*.md")), *sorted(DOCS.rglob("*.md")))
}
_SECTION = re.compile(r"^##+ (\d+(?:\.\d+)?)\.? ", re.MULTILINE)
_BLOCK = re.compile(r"^( *)```([^\n]*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)


def blocks(page: str, language: str | None = None) -> list[str]:
    """The blocks of code on a page, as they would be pasted."""
    matches = _BLOCK.findall(PAGES[page])
    return [textwrap.dedent(text) for _, of, text in matches if language in (None, of)]


def languages(page: str) -> set[str]:
    return {of for _, of, _ in _BLOCK.findall(PAGES[page])}


def prose(page: str) -> str:
    """A page without its blocks of code."""
    return _BLOCK.sub("", PAGES[page])


def command(page: str, beginning: str) -> str:
    """The one block of commands on a page that begins like this."""
    (command_block,) = [block for block in blocks(page, "bash") if block.startswith(beginning)]
    return command_block


def lines_of(block: str) -> list[str]:
    """The commands of a block, those over several lines put together."""
    return [line for line in block.replace("\\\n", "").splitlines() if line.strip()]


def arguments_of_commands(page: str, beginning: str) -> list[list[str]]:
    """The arguments of each command of a block, as a shell splits them."""
    return [shlex.split(line)[1:] for line in lines_of(command(page, beginning))]


def service_sections() -> list[str]:
    return _SECTION.findall(PAGES["docs/service.md"])
