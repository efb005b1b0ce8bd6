"""Each public name has one import path, in the table of ``docs/api/index.md``."""

from __future__ import annotations

import ast
import re
from importlib import import_module
from pathlib import Path

import pytest

from tests.unit.documents import DOCS, ROOT

PACKAGE = "airflow_provider_workflow"
TABLE = (DOCS / "api" / "index.md").read_text().partition("## Import paths")[2]
PATHS = {
    name: f"{PACKAGE}.{module}"
    for names, module in re.findall(r"^\| (`.+) \| `([\w.]+)` \|$", TABLE, re.MULTILINE)
    for name in re.findall(r"`(\w+)`", names)
}
FOR_USERS = [
    *(ROOT / "dags_examples").glob("*.py"),
    *(DOCS / "examples").rglob("*.py"),
]
BEYOND = {"NotFoundError"}
"""Names that the table leaves to another page."""


@pytest.mark.parametrize(("name", "module"), PATHS.items())
def test_a_name_is_imported_from_where_it_is_defined(name: str, module: str) -> None:
    found = getattr(import_module(module), name)

    assert found.__module__ in (module, f"{module}.{name}")


def test_the_table_has_every_operator_sensor_and_trigger_that_airflow_is_told_of() -> None:
    info = import_module(f"{PACKAGE}.get_provider_info").get_provider_info()
    entries = [entry for kind in ("operators", "sensors", "triggers", "hooks") for entry in info[kind]]
    modules = [import_module(name) for entry in entries for name in entry["python-modules"]]
    classes = {
        name: module.__name__
        for module in modules
        for name, value in vars(module).items()
        if isinstance(value, type) and value.__module__ == module.__name__ and name.startswith("Workflow")
    }
    # The sensor makes this trigger.
    classes.pop("WorkflowInboxTrigger")

    assert classes.items() <= PATHS.items()


@pytest.mark.parametrize("path", FOR_USERS, ids=lambda path: path.name)
def test_examples_import_by_the_table(path: Path) -> None:
    imported = {
        alias.name: node.module
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(PACKAGE)
        for alias in node.names
        if alias.name not in BEYOND
    }

    assert imported.items() <= PATHS.items()
