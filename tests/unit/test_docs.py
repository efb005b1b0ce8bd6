"""Pages that are found, links that lead somewhere, and snippets that other tests run."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from airflow.configuration import conf

from airflow_provider_workflow.client.settings import EXTRA_FIELDS
from airflow_provider_workflow.config import OPTIONS
from airflow_provider_workflow.hooks.workflow import WorkflowHook
from tests.unit.documents import DOCS, PAGES, ROOT, blocks, languages, prose

PYTHON = {
    path.read_text(): str(path.relative_to(ROOT))
    for folder in (ROOT / "dags_examples", DOCS / "examples")
    for path in folder.rglob("*.py")
}
DIRECTIVES = ("{eval-rst}", "{include} ../CHANGELOG.md", "{toctree}")
LANGUAGES = {"bash", "docker", "ini", "python", "text", "yaml", *DIRECTIVES}
INSIDE = {"WorkflowAPIError", "WorkflowClient", "WorkflowError", "WorkflowOperator", "WorkflowPlugin"}
"""Classes that users meet, and do not make."""
OF_THE_PROVIDER = {"for_shutdown", "run_once"}
"""Methods of the hook that the provider itself needs."""
LINK = re.compile(r"\]\(([^)\s]+)\)")


def anchors(page: str) -> set[str]:
    titles = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def leads_somewhere(page: str, link: str) -> bool:
    path, _, anchor = link.partition("#")
    target = ((ROOT / page).parent / path).resolve() if path else ROOT / page
    return target.is_file() and (not anchor or anchor in anchors(str(target.relative_to(ROOT))))


def test_every_link_of_a_page_leads_somewhere() -> None:
    links = [(page, link) for page in PAGES for link in LINK.findall(prose(page))]

    assert len(links) > 100
    assert [link for link in links if "://" not in link[1] and not leads_somewhere(*link)] == []


@pytest.mark.parametrize("picture", sorted(DOCS.rglob("*.svg")), ids=lambda path: path.name)
def test_a_picture_can_be_read_aloud_and_needs_nothing_from_elsewhere(picture: Path) -> None:
    root = ElementTree.parse(picture).getroot()
    title = root.find("{http://www.w3.org/2000/svg}title")
    assert title is not None
    assert title.text
    assert not re.search(r"""href=["'](?!#)""", picture.read_text())


def test_every_picture_stands_on_a_page() -> None:
    pictures = {
        ((ROOT / page).parent / path).resolve() for page in PAGES for path in LINK.findall(prose(page))
    }
    assert not [path for path in (*DOCS.rglob("*.png"), *DOCS.rglob("*.svg")) if path not in pictures]


def test_every_python_snippet_of_a_page_is_a_file_that_a_test_runs() -> None:
    snippets = [(page, snippet) for page in PAGES for snippet in blocks(page, "python")]
    tests = "".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))

    assert [
        snippet for snippet in snippets if snippet[1] not in PYTHON and f"\n{snippet[1]}" not in tests
    ] == []
    assert [(page, other) for page in PAGES for other in languages(page) - LANGUAGES] == []


def test_every_example_stands_on_a_page_or_is_linked_from_one() -> None:
    snippets = {snippet for page in PAGES for snippet in blocks(page, "python")}
    linked = {((ROOT / page).parent / link).resolve() for page in PAGES for link in LINK.findall(prose(page))}
    assert not [path for text, path in PYTHON.items() if text not in snippets and ROOT / path not in linked]


def test_every_setting_of_airflow_exists() -> None:
    text = "".join(block.lower() for page in PAGES for block in blocks(page, "ini"))
    settings = re.findall(r"^airflow__([a-z_]+?)__(\w+)=", text, re.MULTILINE)
    assert len(settings) > 5
    assert not [
        (section, option)
        for section, option in settings
        if not conf.has_option(section, option) and not (section == "workflow" and option in OPTIONS)
    ]


def test_contributors_are_told_of_every_target_of_the_makefile() -> None:
    targets = re.findall(r"^([a-z0-9-]+):.* ## ", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert len(targets) > 15
    page = PAGES["CONTRIBUTING.md"]
    assert not [target for target in targets if target != "help" and f"make {target}" not in page]


def test_every_target_that_a_page_names_is_one_of_the_makefile() -> None:
    targets = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    code = [block for page in PAGES for block in blocks(page, "bash")]
    code += [text for page in PAGES for text in re.findall(r"`(make [^`]+)`", prose(page))]
    names = {target for text in code for target in re.findall(r"^make ([a-z0-9-]+)", text, re.MULTILINE)}
    assert len(names) > 15
    assert names - targets == set()


def test_everything_public_is_in_the_reference() -> None:
    reference = "".join(text for page, text in PAGES.items() if page.startswith("docs/api/"))
    names = {
        name
        for source in (ROOT / "airflow_provider_workflow").rglob("*.py")
        for name in re.findall(r"^class (Workflow\w+)", source.read_text(), re.M)
    }
    assert len(names) > 15
    assert not [name for name in names - INSIDE if f".{name}\n" not in reference]


def test_every_method_of_the_hook_stands_on_a_page_with_its_arguments() -> None:
    table = PAGES["docs/operators.md"].partition("| method of the hook |")[2].partition("\n\n")[0]
    calls = {
        call for row in table.splitlines()[2:] for call in re.findall(r"`(\w+\(.*?\))`", row.split(" | ")[0])
    }
    methods = {
        name: inspect.signature(getattr(WorkflowHook, name).__get__(object()))
        for name, value in vars(WorkflowHook).items()
        if inspect.isfunction(value) and not name.startswith("_") and name not in OF_THE_PROVIDER
    }
    assert len(methods) > 20
    assert calls == {f"{name}{without_types(signature)}" for name, signature in methods.items()}


def without_types(signature: inspect.Signature) -> str:
    plain = [
        parameter.replace(annotation=inspect.Parameter.empty) for parameter in signature.parameters.values()
    ]
    return str(inspect.Signature(plain))


def test_every_field_and_option_stands_on_the_page_of_the_connection() -> None:
    page = PAGES["docs/connection.md"]
    rows = [line for line in page.splitlines() if line.startswith("|")]
    assert not [name for name in EXTRA_FIELDS if f"`{name}`" not in page]
    for name, option in OPTIONS.items():
        (row,) = [row for row in rows if row.startswith(f"| `{name}` |")]
        assert option["default"] in row


def test_what_pages_quote_of_errors_and_log_lines_is_what_the_code_says() -> None:
    """What varies in a text is written as ``...``, ``'x'``, ``n`` or a number."""
    texts = "\n".join(
        node.value
        for source in (ROOT / "airflow_provider_workflow").rglob("*.py")
        for node in ast.walk(ast.parse(source.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )
    symptoms = re.findall(r"^\| (?:\w+ )*`([^`|]+ [^`|]+)`", PAGES["docs/troubleshooting.md"], re.MULTILINE)
    parts = [part.strip(" ():") for text in symptoms for part in re.split(r"\.\.\.|'x'|\bn\b|\d", text)]
    sentences = [part for part in parts if " " in part]
    rows = [line.split("|") for line in PAGES["docs/glossary.md"].splitlines() if line.startswith("| ")]
    lines = [text for row in rows for text in re.findall(r"`([^`]+)`", row[3])]
    log_texts = [part.strip() for line in lines for part in line.split("...") if part.strip()]

    assert len(sentences) > 15
    assert len(log_texts) > 10
    assert not [part for part in (*sentences, *log_texts) if part not in texts]
