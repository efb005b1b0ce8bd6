"""What is private to Airflow, to the package and to tests is used in few places."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_provider_workflow import airflow_internals

TESTS = Path(__file__).parents[1]
FOREIGN = {
    *("_actions", "_HelpAction", "_SubParsersAction", "_add_command"),  # argparse, and Airflow's parser
    *("_RequestFrame", "_ResponseFrame", "_thread_lock"),  # the SDK's
    *("_shared", "_secrets_masker"),  # its masking of secrets
    *("_shared_streams", "_groups", "_ack_timeout", "_now"),  # Airflow's shared streams
    *("_do_render_template_fields", "_serialize_rendered_fields"),  # called by Airflow
    "_common",  # of psutil
    *("_exit", "_replace"),  # public, in spite of how they are written
}
"""Private names of Python, Airflow and other libraries, which tests stand for or look into."""


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name != "_" and name not in FOREIGN


def private_names(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Private names that are taken from anything but ``self``, ``cls`` and ``super()``, with their line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) not in ("self", "cls", "super()"):
            names = [node.attr]
        elif isinstance(node, ast.ImportFrom):
            names = [each.name for each in node.names]
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("attr", "patch", "object")):
            strings = [each.value for each in node.args[:2] if isinstance(each, ast.Constant)]
            names = [part for each in strings if isinstance(each, str) for part in each.split(".")]
        else:
            continue
        yield from ((node.lineno, name) for name in names if is_private(name))


def test_no_test_uses_a_private_name() -> None:
    found = [
        (f"{path.relative_to(TESTS)}:{line}", name)
        for path in TESTS.rglob("*.py")
        for line, name in private_names(ast.parse(path.read_text()))
    ]

    assert found == []


HERE = Path(airflow_internals.__file__)
MOST = 2
"""Modules that may import what is private to Airflow: for tasks and commands, and for the API server."""
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
            names = [each.name for each in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            private = [each.name for each in node.names if each.name.startswith("_")]
            names = [node.module, *(f"{node.module}.{name}" for name in private)]
        else:
            continue
        yield from (name for name in names if name.split(".")[0] == "airflow")


def test_few_modules_import_what_is_private_to_airflow() -> None:
    found = {
        path.relative_to(HERE.parent).as_posix(): set(imported(ast.parse(path.read_text()))) - PUBLIC
        for path in HERE.parent.rglob("*.py")
    }
    with_some = {path: names for path, names in found.items() if names}

    assert with_some.pop(HERE.name)
    assert len(with_some) == MOST - 1, with_some


def test_the_reserved_keys_are_those_that_this_api_server_rejects() -> None:
    from airflow.api_fastapi.execution_api.datamodels.dagrun import TriggerDAGRunPayload

    def rejected(key: str) -> bool:
        try:
            TriggerDAGRunPayload.model_validate({"conf": {"a": [{key: 1}]}})
        except ValueError:
            return True
        return False

    known = airflow_internals.SERIALIZATION_KEYS
    others = {"__ref__", "__name__", "type", "__Classname__"}
    assert {key for key in known | others if rejected(key)} == airflow_internals.reserved_keys()


@pytest.mark.since(3, 4, "the set of reserved keys")
def test_the_reserved_keys_are_all_that_airflow_has() -> None:
    from airflow.sdk._shared.serialization import FORBIDDEN_XCOM_KEYS

    assert FORBIDDEN_XCOM_KEYS == airflow_internals.SERIALIZATION_KEYS
