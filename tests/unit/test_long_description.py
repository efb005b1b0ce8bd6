"""What a package index shows: the README, with links that lead somewhere without the repository."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from functools import cache
from typing import Any

import pytest

from hatch_build import with_absolute_links
from tests.unit.documents import DOCS, PAGES, ROOT, prose

URLS = {"Documentation": "https://docs.example/", "Source": "https://code.example/main"}
TARGET = re.compile(r"\]\(([^)]*)\)|(?:src|href)=\"([^\"]*)\"")


@cache
def metadata() -> dict[str, Any]:
    """The metadata of the distribution, as the build backend makes it."""
    build = [sys.executable, "-m", "hatchling", "metadata"]
    done = subprocess.run(build, cwd=ROOT, check=True, capture_output=True, text=True, timeout=60)
    made: dict[str, Any] = json.loads(done.stdout)
    return made


def links_of(text: str) -> list[str]:
    """Where the links and pictures of a text lead."""
    return ["".join(found) for found in TARGET.findall(text)]


@pytest.mark.slow
def test_every_link_of_the_long_description_is_absolute() -> None:
    readme = metadata()["readme"]
    assert readme["content-type"] == "text/markdown"
    links = links_of(readme["text"])
    assert len(links) == len(links_of(PAGES["README.md"])) > 20
    assert not [link for link in links if not link.startswith("https://")]


@pytest.mark.slow
def test_the_long_description_is_the_readme_but_for_its_links() -> None:
    def without_links(text: str) -> str:
        return re.sub(r"\]\([^)]*\)", "]()", text)

    assert without_links(metadata()["readme"]["text"]) == without_links(PAGES["README.md"])


@pytest.mark.slow
def test_all_addresses_of_the_project_are_below_its_urls() -> None:
    hosts = {url.split("/")[2] for url in metadata()["urls"].values()}
    assert {link.split("/")[2] for link in links_of(metadata()["readme"]["text"])} <= hosts
    assert set(metadata()["urls"]) >= {"Documentation", "Source", "Changelog"}


@pytest.mark.parametrize(
    ("link", "absolute"),
    [
        ("docs/api/errors.md#errors", "https://docs.example/api/errors.html#errors"),
        ("docs/images/demo.png", "https://docs.example/_images/demo.png"),
        ("CONTRIBUTING.md#set-up", "https://code.example/main/CONTRIBUTING.md#set-up"),
        ("https://elsewhere.example/a.md", "https://elsewhere.example/a.md"),
        ("#install", "#install"),
    ],
)
def test_a_link_leads_to_the_documentation_or_to_the_source(link: str, absolute: str) -> None:
    assert with_absolute_links(f"A [page]({link}), and more.", URLS) == f"A [page]({absolute}), and more."


def test_blocks_of_code_stay_as_they_are() -> None:
    code = "```python\nlinks = [a](docs/b.md)\n```"
    assert with_absolute_links(f"[a](docs/b.md)\n\n{code}\n", URLS) == (
        f"[a](https://docs.example/b.html)\n\n{code}\n"
    )


def test_every_picture_of_the_readme_is_built_into_the_documentation() -> None:
    """Sphinx copies what its own pages show."""
    pictures = {link for link in links_of(prose("README.md")) if link.endswith((".png", ".svg"))}
    shown = {
        ((ROOT / page).parent / link).resolve()
        for page in PAGES
        if page.startswith("docs/")
        for link in links_of(prose(page))
    }
    assert pictures
    assert {(ROOT / picture).resolve() for picture in pictures} <= shown
    names = [path.name for path in (*DOCS.rglob("*.png"), *DOCS.rglob("*.svg"))]
    assert len(names) == len(set(names))
