"""What users paste first, and what a package index shows of the README."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
import tomllib

import pytest
from airflow.cli.cli_parser import get_parser
from airflow.sdk import Connection

from airflow_provider_workflow.client.api import authorization_url
from airflow_provider_workflow.client.settings import Settings
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


def connection_of(page: str) -> tuple[str, str]:
    """Id and JSON of the connection that a page adds, as Airflow reads its command."""
    options = get_parser().parse_args(shlex.split(command(page, ADD))[1:])
    return options.conn_id, options.conn_json


def test_the_connection_of_a_user_is_accepted() -> None:
    conn_id, text = connection_of("docs/user-tokens.md")
    settings = settings_of(text)
    assert conn_id == "workflow_user"
    assert settings.grant == "refresh_token"
    assert authorization_url(settings, scope="external", state="x").startswith(
        "https://api.example.com/v2/authorize?"
    )


def test_the_command_adds_the_same_connection() -> None:
    conn_id, text = connection_of(CONNECTION)
    assert conn_id == "workflow_default"
    assert json.loads(text) == json.loads(connection_in(command(CONNECTION, "export")))


def test_the_quickstart_has_at_most_8_commands_and_is_that_of_the_tutorial() -> None:
    quickstart = command("README.md", QUICKSTART)
    assert command("docs/tutorial.md", QUICKSTART) == quickstart
    first, *others = [line for line in lines_of(quickstart) if not line.startswith(" ")]
    assert len(others) < 8
    assert (ROOT / first.removeprefix(QUICKSTART).strip()).is_file()


PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
URLS = PROJECT["project"]["urls"]
TARGET = re.compile(r"\]\(([^)]*)\)|(?:src|href)=\"([^\"]*)\"")


def links_of(text: str) -> list[str]:
    return ["".join(groups) for groups in TARGET.findall(text)]


@pytest.mark.slow
def test_the_long_description_is_the_readme_with_absolute_links_below_the_urls_of_the_project() -> None:
    def without_links(text: str) -> str:
        return re.sub(r"\]\([^)]*\)", "]()", text)

    build = [sys.executable, "-m", "hatchling", "metadata"]
    process = subprocess.run(build, cwd=ROOT, check=True, capture_output=True, text=True, timeout=60)
    metadata = json.loads(process.stdout)
    readme, urls = metadata["readme"], metadata["urls"]
    assert readme["content-type"] == "text/markdown"
    assert without_links(readme["text"]) == without_links(PAGES["README.md"])
    links = links_of(readme["text"])
    assert len(links) == len(links_of(PAGES["README.md"])) > 20
    assert not [link for link in links if not link.startswith("https://")]
    assert {link.split("/")[2] for link in links} <= {url.split("/")[2] for url in urls.values()}
    assert set(urls) >= {"Documentation", "Source", "Changelog"}


def with_absolute_links(text: str) -> str:
    """What the build makes of Markdown."""
    hook = PROJECT["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]
    for substitution in hook["substitutions"]:
        text = re.sub(substitution["pattern"], substitution["replacement"], text)
    return text


@pytest.mark.parametrize(
    ("link", "url", "path"),
    [
        ("docs/api/errors.md#errors", "Documentation", "api/errors.html#errors"),
        ("docs/dead-letters.md", "Documentation", "dead-letters.html"),
        ("docs/images/demo.png", "Documentation", "_images/demo.png"),
        ("CONTRIBUTING.md#set-up", "Source", "CONTRIBUTING.md#set-up"),
    ],
)
def test_a_link_leads_to_documentation_or_source(link: str, url: str, path: str) -> None:
    page = "A [page]({}), and [more]({})."
    assert with_absolute_links(page.replace("{}", link)) == page.replace("{}", URLS[url] + path)


@pytest.mark.parametrize("link", ["https://elsewhere.example/a.md", "mailto:a@elsewhere.example", "#install"])
def test_a_link_that_leads_somewhere_everywhere_stays(link: str) -> None:
    assert with_absolute_links(f"A [page]({link}).") == f"A [page]({link})."


def test_code_of_the_readme_stays_as_it_is() -> None:
    code = re.findall(r"^```.*?^```$", PAGES["README.md"], re.MULTILINE | re.DOTALL)
    assert len(code) > 3
    assert [block for block in code if with_absolute_links(block) != block] == []


def test_every_picture_of_the_readme_is_built_into_the_documentation() -> None:
    """Sphinx copies what its own pages show."""
    pictures = {link for link in links_of(prose("README.md")) if link.endswith((".png", ".svg"))}
    pictures_of_docs = {
        ((ROOT / page).parent / link).resolve()
        for page in PAGES
        if page.startswith("docs/")
        for link in links_of(prose(page))
    }
    assert pictures
    assert {(ROOT / picture).resolve() for picture in pictures} <= pictures_of_docs
    names = [path.name for path in (*DOCS.rglob("*.png"), *DOCS.rglob("*.svg"))]
    assert len(names) == len(set(names))
