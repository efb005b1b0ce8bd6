"""What is private to Airflow, to the package and to tests is used in few places."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_provider_workflow import airflow_internals
from tests.unit.documents import PAGES

TESTS = Path(__file__).parents[1]
NAMED = re.compile(r"""(?:attr|patch|object)\([^)]*?["'](?:[\w.]+\.)?(_[a-z]\w*)["'.]""")
IMPORTED = re.compile(r"^ *from [\w.]+ import (?:\([^)]*?|[^(\n]*?)\b(_[a-z]\w*)", re.MULTILINE)


def test_no_test_imports_or_replaces_what_is_private() -> None:
    """Ruff reports where an attribute is used. Airflow's masking of secrets is private."""
    texts = {path.relative_to(TESTS): path.read_text() for path in TESTS.rglob("*.py")}
    names_by_path = {path: NAMED.findall(text) + IMPORTED.findall(text) for path, text in texts.items()}
    assert {path: names for path, names in names_by_path.items() if set(names) - {"_secrets_masker"}} == {}


HERE = Path(airflow_internals.__file__)
PUBLIC = {
    "airflow.cli.cli_config",  # what the entry "cli" of a provider's info returns
    "airflow.configuration",
    "airflow.plugins_manager",
    "airflow.exceptions",
    "airflow.providers.common.compat.connection",
    "airflow.providers.common.compat.openlineage.facet",
    "airflow.providers.common.compat.sdk",
    "airflow.providers.common.messaging.providers.base_provider",
    "airflow.providers.openlineage.extractors",  # what a method of operators for lineage returns
    "airflow.sdk",
    "airflow.sdk.exceptions",
    "airflow.sdk.log",
    "airflow.secrets.environment_variables",  # the documented backend of connections in the environment
    "airflow.triggers.base",
    "airflow.triggers.shared_stream",  # what the shared streams of airflow.triggers.base are made of
}
"""Modules of Airflow that it documents, for users or for providers."""


def imported(tree: ast.AST) -> Iterator[str]:
    """The modules of Airflow that a module imports, and names within them that are private."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [name.name for name in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            private = [name.name for name in node.names if name.name.startswith("_")]
            names = [node.module, *(f"{node.module}.{name}" for name in private)]
        else:
            continue
        yield from (name for name in names if name.split(".")[0] == "airflow")


def test_few_modules_import_what_is_private_to_airflow() -> None:
    names_by_path = {
        path.relative_to(HERE.parent).as_posix(): set(imported(ast.parse(path.read_text()))) - PUBLIC
        for path in HERE.parent.rglob("*.py")
    }
    # For tasks and commands, and for the API server.
    assert {path for path, names in names_by_path.items() if names} == {HERE.name, "plugin/access.py"}
    page = PAGES["docs/decisions/airflow.md"]
    private = set().union(*names_by_path.values()) - {"airflow", "airflow.__version__"}
    assert not [name for name in private if f"`{name}`" not in page and f"`{name}." not in page]


def test_the_reserved_keys_are_those_that_this_api_server_rejects() -> None:
    from airflow.api_fastapi.execution_api.datamodels.dagrun import TriggerDAGRunPayload

    def rejected(key: str) -> bool:
        try:
            TriggerDAGRunPayload.model_validate({"conf": {"a": [{key: 1}]}})
        except ValueError:
            return True
        return False

    known_keys = airflow_internals.SERIALIZATION_KEYS
    other_keys = {"__ref__", "__name__", "type", "__Classname__"}
    assert {key for key in known_keys | other_keys if rejected(key)} == airflow_internals.reserved_keys()


@pytest.mark.since(3, 4, "the set of reserved keys")
def test_the_reserved_keys_are_all_that_airflow_has() -> None:
    from airflow.sdk._shared.serialization import FORBIDDEN_XCOM_KEYS

    assert FORBIDDEN_XCOM_KEYS == airflow_internals.SERIALIZATION_KEYS
