"""Every distribution that the package imports from is declared, and every declared one is imported from."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.metadata import packages_distributions

import pytest

from tests.unit.documents import ROOT

PACKAGE = "airflow_provider_workflow"
SHARED = {
    "airflow.providers.common.compat": "apache-airflow-providers-common-compat",
    "airflow.providers.common.messaging": "apache-airflow-providers-common-messaging",
    "airflow.providers.openlineage": "apache-airflow-providers-openlineage",
    "airflow": "apache-airflow",
    "opentelemetry": "opentelemetry-api",
}
"""Distributions that share a package with others, the longest name of a package first."""
EXTRAS = {
    "apache-airflow-providers-common-messaging": "common-messaging",
    "apache-airflow-providers-openlineage": "openlineage",
    "opentelemetry-api": "opentelemetry",
}
"""
What only an extra asks for. The modules that import the first two are loaded by those providers alone, and
the third is imported only where something else has imported and configured it.
"""
WITHOUT_DECLARATION = {
    "pytest": "imported by the pytest plugin alone, which only pytest loads",
}


@cache
def declared() -> dict[str, set[str]]:
    """Names of the declared distributions: of each extra, and of none under the empty name."""
    build = [sys.executable, "-m", "hatchling", "metadata"]
    done = subprocess.run(build, cwd=ROOT, check=True, capture_output=True, text=True, timeout=60)
    metadata = json.loads(done.stdout)
    groups = {"": metadata["dependencies"], **metadata["optional-dependencies"]}
    return {extra: {name_of(each) for each in requirements} for extra, requirements in groups.items()}


def name_of(requirement: str) -> str:
    """The normalized name in front of a requirement."""
    return re.sub(r"[-_.]+", "-", re.match(r"[\w.-]+", requirement)[0]).lower()  # type: ignore[index]


def imported() -> set[str]:
    """Full names of all modules that the package imports when it runs, its own and Python's left out."""
    names: set[str] = set()
    for path in (ROOT / PACKAGE).rglob("*.py"):
        names.update(imports_of(ast.parse(path.read_text())))
    return {name for name in names if name.split(".")[0] not in {PACKAGE, *sys.stdlib_module_names}}


def imports_of(tree: ast.AST) -> Iterator[str]:
    """What a module imports, other than for its types."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            yield from imports_of(ast.Module(node.orelse, []))
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""
        else:
            yield from imports_of(node)


def distribution_of(module: str) -> str:
    """Which distribution a module comes from."""
    for package, distribution in SHARED.items():
        if f"{module}.".startswith(f"{package}."):
            return distribution
    top = module.split(".")[0]
    # One that this Python needs no more is not installed, and called like its module.
    return name_of(_installed().get(top, [top])[0])


@cache
def _installed() -> Mapping[str, list[str]]:
    return packages_distributions()


def test_imports_for_types_are_told_from_others() -> None:
    tree = ast.parse(
        "import a.b\nif TYPE_CHECKING:\n    import c\nelse:\n    import d\ndef f():\n    from e.f import g"
    )
    assert set(imports_of(tree)) == {"a.b", "d", "e.f"}


@pytest.mark.slow
def test_whatever_is_imported_is_declared() -> None:
    names = {name for name in imported() if name.split(".")[0] not in WITHOUT_DECLARATION}
    needed = {distribution_of(name) for name in names}
    assert "aiohttp" in needed
    assert needed - declared()[""] == set(EXTRAS)
    assert not [name for name, extra in EXTRAS.items() if name not in declared()[extra]]


@pytest.mark.slow
def test_whatever_is_declared_is_imported() -> None:
    assert declared()[""] <= {distribution_of(name) for name in imported()}


def test_what_needs_no_declaration_is_imported() -> None:
    assert set(WITHOUT_DECLARATION) <= {name.split(".")[0] for name in imported()}
