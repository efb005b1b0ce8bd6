"""What users paste first, and what a package index shows of the README."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import Connection

from airflow_provider_workflow.client.api import authorization_url
from airflow_provider_workflow.client.settings import Settings
from hatch_build import with_absolute_links
from tests.unit.documents import DOCS, PAGES, ROOT, command, lines_of, prose

CONNECTION = "docs/connection.md"
ADD = "airflow connections add"
QUICKSTART = "pip install . --constraint"
"""What blocks of commands begin with."""


def connection_in(block: str) -> str:
    """The value that an ``export`` of a connection gives it."""
    (assignment,) = shlex.split(block)[1:]
    name, _, text = assignment.partition("=")
    assert name == "AIRFLOW_CONN_WORKFLOW_DEFAULT"
    return text


def settings_of(text: str) -> Settings:
    """What our client makes of a connection in JSON."""
    connection = Connection.from_json(text, "pasted")
    return Settings.build(
        host=connection.host,
        login=connection.login,
        password=connection.password,
        extra=connection.extra_dejson,
    )


def test_the_connection_to_paste_is_accepted() -> None:
    text = connection_in(command(CONNECTION, "export"))
    settings = settings_of(text)
    assert settings.base_url == json.loads(text)["host"]


def test_the_connection_of_a_user_is_accepted() -> None:
    *_, text = shlex.split(command("docs/user-tokens.md", ADD))
    settings = settings_of(text)
    assert settings.grant == "refresh_token"
    assert authorization_url(settings, scope="external", state="x").startswith(
        "https://api.example.com/v2/authorize?"
    )


def test_the_command_adds_the_same_connection() -> None:
    *_, text = shlex.split(command(CONNECTION, ADD))
    assert json.loads(text) == json.loads(connection_in(command(CONNECTION, "export")))


@pytest.mark.slow
def test_the_package_installs_from_a_clone(tmp_path: Path) -> None:
    first, *_ = lines_of(command("README.md", QUICKSTART))
    pip, *arguments = shlex.split(first)
    assert pip == "pip"
    # Without its dependencies, which are installed already.
    alone = ["--no-deps", "--no-build-isolation", "--quiet", "--target", str(tmp_path)]
    subprocess.run([sys.executable, "-m", "pip", *arguments, *alone], cwd=ROOT, check=True, timeout=120)
    installed = {path.name for path in tmp_path.iterdir()}
    assert "airflow_provider_workflow" in installed
    assert (tmp_path / "airflow_provider_workflow" / "py.typed").exists()
    assert not installed & {"benchmarks", "docs", "tests", "tools", "dags_examples"}


def test_the_quickstart_has_at_most_8_commands_and_is_that_of_the_tutorial() -> None:
    quickstart = command("README.md", QUICKSTART)
    assert command("docs/tutorial.md", QUICKSTART) == quickstart
    assert len([line for line in lines_of(quickstart) if not line.startswith(" ")]) <= 8


URLS = {"Documentation": "https://docs.example/", "Source": "https://code.example/main"}
TARGET = re.compile(r"\]\(([^)]*)\)|(?:src|href)=\"([^\"]*)\"")


@cache
def metadata() -> dict[str, Any]:
    build = [sys.executable, "-m", "hatchling", "metadata"]
    done = subprocess.run(build, cwd=ROOT, check=True, capture_output=True, text=True, timeout=60)
    made: dict[str, Any] = json.loads(done.stdout)
    return made


def links_of(text: str) -> list[str]:
    return ["".join(found) for found in TARGET.findall(text)]


@pytest.mark.slow
def test_the_long_description_is_the_readme_with_absolute_links_below_the_urls_of_the_project() -> None:
    def without_links(text: str) -> str:
        return re.sub(r"\]\([^)]*\)", "]()", text)

    readme, urls = metadata()["readme"], metadata()["urls"]
    assert readme["content-type"] == "text/markdown"
    assert without_links(readme["text"]) == without_links(PAGES["README.md"])
    links = links_of(readme["text"])
    assert len(links) == len(links_of(PAGES["README.md"])) > 20
    assert not [link for link in links if not link.startswith("https://")]
    assert {link.split("/")[2] for link in links} <= {url.split("/")[2] for url in urls.values()}
    assert set(urls) >= {"Documentation", "Source", "Changelog"}


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
