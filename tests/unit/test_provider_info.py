"""The package as Airflow and pip see it: metadata, dependencies, configuration."""

from __future__ import annotations

import ast
import json
import os
import pkgutil
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import airflow
import jsonschema
import pytest
from airflow.providers_manager import ProvidersManager

from airflow_provider_workflow import config
from airflow_provider_workflow.assets import SCHEME, create_asset, sanitize_uri
from airflow_provider_workflow.config import page
from airflow_provider_workflow.get_provider_info import CONN_FIELDS, get_provider_info
from airflow_provider_workflow.hooks.workflow import WorkflowHook
from tests.unit.documents import ROOT

INFO = get_provider_info()
NAME = "airflow-provider-workflow"
PACKAGE = "airflow_provider_workflow"
OF_A_FULL_FILE = {"state", "source-date-epoch", "versions"}
"""Keys that only a provider in Airflow's own repository has."""
CONNECTION_PAGE = """
import json
from airflow.api_fastapi.core_api.services.ui.connections import HookMetaService

(shown,) = (each for each in HookMetaService.hook_meta_data() if each.connection_type == "workflow")
extra = {name: dict(field) for name, field in shown.extra_fields.items()}
print(json.dumps([shown.standard_fields.model_dump(), extra]))
"""


@pytest.mark.parametrize("name", ["provider_info.schema.json", "provider.yaml.schema.json"])
def test_it_is_valid_for_the_schema_that_is_checked_at_run_time_and_the_full_one(name: str) -> None:
    schema = json.loads((Path(airflow.__file__).parent / name).read_text())
    schema["required"] = sorted(set(schema.get("required", ())) - OF_A_FULL_FILE)
    jsonschema.validate(INFO, schema)


def ours(value: Any) -> set[str]:
    """The classes, functions and modules of this package that are named there."""
    return set(re.findall(rf'"({PACKAGE}\.[\w.]+)"', json.dumps(value)))


def test_every_name_in_it_can_be_imported() -> None:
    names = ours(INFO)
    assert f"{PACKAGE}.hooks.workflow.WorkflowHook" in names
    for name in sorted(names):
        assert pkgutil.resolve_name(name), name


def test_airflow_finds_the_connection_type_with_its_hook() -> None:
    hook = ProvidersManager().hooks["workflow"]
    assert hook is not None
    assert hook.hook_class_name == f"{WorkflowHook.__module__}.{WorkflowHook.__name__}"
    assert hook.connection_id_attribute_name == "workflow_conn_id"
    assert (hook.package_name, hook.hook_name) == (NAME, "Workflow")
    assert hook.connection_testable


def test_airflow_finds_links_queues_triggers_options_and_assets() -> None:
    manager = ProvidersManager()
    links = {
        f"{PACKAGE}.links.{name}" for name in ("WorkflowEditorLink", "StartedRunsLink", "ReplayedRunLink")
    }
    triggers = {f"{PACKAGE}.triggers.{name}" for name in ("inbox", "notice", "event")}

    assert links <= set(manager.extra_links_class_names)
    assert f"{PACKAGE}.queues.inbox.WorkflowInboxMessageQueueProvider" in manager.queue_class_names
    assert triggers <= {trigger.trigger_class_name for trigger in manager.trigger}
    assert dict(manager.provider_configs)[NAME]["workflow"]["options"] == config.OPTIONS
    assert manager.asset_uri_handlers[SCHEME] is sanitize_uri
    assert manager.asset_factories[SCHEME] is create_asset


def test_airflow_links_to_the_documentation_of_the_project() -> None:
    """Without a URL its page of providers links to a page of Apache's site that does not exist."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    # Airflow 3.2 leaves the blank before it.
    url = ProvidersManager().providers[NAME].data["documentation-url"].strip()

    assert url == project["urls"]["Documentation"]
    assert not str(urlsplit(url).hostname).endswith("apache.org")


@pytest.mark.slow
def test_the_page_for_connections_shows_the_form() -> None:
    environment = {**os.environ, "AIRFLOW__LOGGING__LOGGING_LEVEL": "ERROR"}
    command = [sys.executable, "-W", "ignore", "-c", CONNECTION_PAGE]
    process = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=120, check=True
    )
    standard, extra = json.loads(process.stdout.splitlines()[-1])

    assert {name for name, field in standard.items() if field and field["hidden"]} == {"port", "url_schema"}
    assert standard["host"]["title"] == "Base URL"
    assert set(extra) == set(CONN_FIELDS)
    assert extra["oauth_url"]["schema"]["title"] == "Token URL"


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
WITHOUT_DECLARATION = {"pytest"}
"""Imported by the pytest plugin alone, which only pytest loads."""


installed = cache(packages_distributions)


def declared() -> dict[str, set[str]]:
    """Names of the declared distributions: of each extra, and of none under the empty name."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    groups = {"": project["dependencies"], **project["optional-dependencies"]}
    return {
        extra: {name_of(requirement) for requirement in requirements}
        for extra, requirements in groups.items()
    }


def name_of(requirement: str) -> str:
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
    for package, distribution in SHARED.items():
        if f"{module}.".startswith(f"{package}."):
            return distribution
    top = module.split(".")[0]
    # One that this Python needs no more is not installed, and called like its module.
    return name_of(installed().get(top, [top])[0])


def test_what_is_imported_is_declared_and_what_is_declared_is_imported() -> None:
    tops = {name: name.split(".")[0] for name in imported()}
    assert set(tops.values()) >= WITHOUT_DECLARATION
    needed = {distribution_of(name) for name, top in tops.items() if top not in WITHOUT_DECLARATION}
    groups = declared()
    assert "aiohttp" in needed
    assert needed - groups[""] == set(EXTRAS)
    assert groups[""] <= needed
    assert not [name for name, extra in EXTRAS.items() if name not in groups[extra]]


@pytest.mark.parametrize(
    ("option", "default"), [("max_event_streams", 500), ("quarantine_check_seconds", 600)]
)
def test_an_option_has_a_default_and_is_a_setting(
    option: str, default: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = getattr(config, option)
    assert read() == default
    monkeypatch.setenv(f"AIRFLOW__WORKFLOW__{option.upper()}", "7")
    assert read() == 7


def test_the_page_is_on_unless_it_is_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    assert page()
    for value, is_on in {"on": True, " True": True, "off": False, "False": False, "oof": False}.items():
        monkeypatch.setenv("AIRFLOW__WORKFLOW__PAGE", value)
        assert page() is is_on
