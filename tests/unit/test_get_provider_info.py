"""What Airflow reads of the provider is valid, complete, and leads to things that exist."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import airflow
import jsonschema
import pytest
from airflow.providers_manager import ProvidersManager

from airflow_provider_workflow.get_provider_info import get_provider_info
from airflow_provider_workflow.hooks.connection import CONN_FIELDS
from airflow_provider_workflow.hooks.workflow import WorkflowHook

INFO = get_provider_info()
OF_A_FULL_FILE = {"state", "source-date-epoch", "versions"}
"""Keys that only a provider in Airflow's own repository has."""
CONNECTION_PAGE = """
import json
from airflow.api_fastapi.core_api.services.ui.connections import HookMetaService

(shown,) = (each for each in HookMetaService.hook_meta_data() if each.connection_type == "workflow")
extra = {name: dict(field) for name, field in shown.extra_fields.items()}
print(json.dumps([shown.standard_fields.model_dump(), extra]))
"""


def schema(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((Path(airflow.__file__).parent / name).read_text())
    return found


def test_it_is_valid_for_the_schema_that_airflow_checks_at_run_time() -> None:
    jsonschema.validate(INFO, schema("provider_info.schema.json"))


def test_it_is_valid_for_the_full_schema_which_knows_the_connection_form() -> None:
    full = schema("provider.yaml.schema.json")
    full["required"] = sorted(set(full["required"]) - OF_A_FULL_FILE)
    jsonschema.validate(INFO, full)


def test_the_package_is_named_as_its_distribution() -> None:
    (entry,) = (
        each
        for each in entry_points(group="apache_airflow_provider")
        if each.value.startswith("airflow_provider_workflow.")
    )
    assert entry.dist is not None
    assert entry.dist.name == INFO["package-name"]
    assert entry.load() is get_provider_info


def test_airflow_does_not_link_to_documentation_of_somebody_else() -> None:
    """Without a URL in the metadata the page of providers links to Apache's site."""
    url = ProvidersManager().providers[INFO["package-name"]].data["documentation-url"]

    assert url is not None
    assert str(urlsplit(url.strip()).hostname).endswith(".invalid")


@pytest.mark.parametrize("kind", ["hooks", "operators", "sensors", "triggers"])
def test_every_module_that_it_names_exists(kind: str) -> None:
    names = [name for group in INFO[kind] for name in group["python-modules"]]

    assert names
    assert [name for name in names if find_spec(name) is None] == []


def classes() -> list[str]:
    named = [each["hook-class-name"] for each in INFO["connection-types"]]
    named += [each["handler"] for each in INFO.get("asset-uris", []) if each.get("handler")]
    named += [each["class-name"] for each in INFO["task-decorators"]]
    for kind in ("extra-links", "queues", "cli"):
        named += INFO.get(kind, [])
    return named


def test_every_object_that_it_names_exists() -> None:
    named = [name.rpartition(".") for name in classes()]

    assert [each for each in named if not hasattr(importlib.import_module(each[0]), each[2])] == []


def test_airflow_finds_the_connection_type_with_its_hook() -> None:
    manager = ProvidersManager()
    found = manager.hooks["workflow"]
    assert found is not None
    assert found.hook_class_name == f"{WorkflowHook.__module__}.{WorkflowHook.__name__}"
    assert found.connection_id_attribute_name == "workflow_conn_id"
    assert found.connection_testable


@pytest.mark.slow
def test_the_page_for_connections_shows_the_form() -> None:
    environment = {**os.environ, "AIRFLOW__LOGGING__LOGGING_LEVEL": "ERROR"}
    command = [sys.executable, "-W", "ignore", "-c", CONNECTION_PAGE]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=True)
    standard, extra = json.loads(done.stdout.splitlines()[-1])

    assert {name for name, field in standard.items() if field and field["hidden"]} == {"port", "url_schema"}
    assert standard["host"]["title"] == "Base URL"
    assert set(extra) == set(CONN_FIELDS)
    assert extra["oauth_url"]["schema"]["title"] == "Token URL"


def test_the_options_of_the_configuration_are_whole() -> None:
    for section in INFO["config"].values():
        for option in section["options"].values():
            assert {"description", "version_added", "type", "example", "default"} <= set(option)
