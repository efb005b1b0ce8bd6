"""Each public name has one import path, in the table of ``docs/api/index.md``."""

from __future__ import annotations

import ast
import re
from importlib import import_module

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


def test_a_name_is_imported_from_where_it_is_defined() -> None:
    defined_in = {name: getattr(import_module(module), name).__module__ for name, module in PATHS.items()}

    assert [name for name in PATHS if defined_in[name] not in (PATHS[name], f"{PATHS[name]}.{name}")] == []


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


def test_examples_import_by_the_table() -> None:
    imported = {
        (path.name, alias.name, node.module)
        for path in FOR_USERS
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(PACKAGE)
        for alias in node.names
        if alias.name not in BEYOND
    }

    assert [entry for entry in imported if PATHS.get(entry[1]) != entry[2]] == []
