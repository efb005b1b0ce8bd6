"""
The long description of the distribution: the README, with its relative links made absolute.

A package index shows the README without the repository around it, where a relative link leads nowhere. The
URLs come from ``[project.urls]`` in ``pyproject.toml``, the only place where they are written: pages and
pictures of ``docs/`` are below ``Documentation``, which serves what ``make docs`` builds, and all other files
below ``Source``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

README = "README.md"
PICTURES = (".png", ".svg")
_FENCE = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\((?!https?://|mailto:|#)([^)\s#]+)(#[^)\s]*)?\)")


class LongDescription(MetadataHookInterface):
    """Sets the field ``readme``, which ``pyproject.toml`` lists as dynamic."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add the long description to the metadata of the project."""
        text = (Path(self.root) / README).read_text(encoding="utf-8")
        metadata["readme"] = {
            "content-type": "text/markdown",
            "text": with_absolute_links(text, metadata["urls"]),
        }


def with_absolute_links(text: str, urls: Mapping[str, str]) -> str:
    """
    Markdown whose relative links are absolute; blocks of code stay as they are.

    :param text: Markdown of a file in the root of the repository.
    :param urls: with the keys ``Documentation`` and ``Source``.
    """

    def absolute(link: re.Match[str]) -> str:
        return f"]({_url_of(PurePosixPath(link[1]), urls)}{link[2] or ''})"

    parts = _FENCE.split(text)
    # Blocks of code are at the odd positions.
    return "".join(part if index % 2 else _LINK.sub(absolute, part) for index, part in enumerate(parts))


def _url_of(path: PurePosixPath, urls: Mapping[str, str]) -> str:
    documentation, source = (urls[name].rstrip("/") for name in ("Documentation", "Source"))
    if path.parts[0] != "docs":
        return f"{source}/{path}"
    if path.suffix in PICTURES:
        # Where Sphinx puts the pictures of all pages.
        return f"{documentation}/_images/{path.name}"
    return f"{documentation}/{path.relative_to('docs').with_suffix('.html')}"
