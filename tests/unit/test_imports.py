"""What importing a part of the provider loads: Airflow imports some of it in every process."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

HEAVY = ("requests", "aiohttp", "tenacity", "jmespath", "starlette", "uvicorn", "urllib3")
WITHOUT_AIRFLOW = [
    "airflow_provider_workflow",
    "airflow_provider_workflow.assets",
    "airflow_provider_workflow.get_provider_info",
    "airflow_provider_workflow.types",
    "airflow_provider_workflow.client.api",
    "airflow_provider_workflow.client.tokens",
    "airflow_provider_workflow.client.errors",
    "airflow_provider_workflow.client.inboxes",
    "airflow_provider_workflow.client.settings",
]


def loaded_by(statement: str) -> set[str]:
    """Top-level packages in memory after a statement, in a process of its own."""
    code = (
        f"{statement}\nimport sys, json\nprint(json.dumps(sorted({{m.split('.')[0] for m in sys.modules}})))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_what_describes_the_protocol_and_its_assets_loads_neither_airflow_nor_http() -> None:
    assert loaded_by(f"import {', '.join(WITHOUT_AIRFLOW)}") & {"airflow", *HEAVY} == set()


def test_the_hook_loads_no_more_than_airflow_itself() -> None:
    bare = loaded_by("import airflow.sdk, airflow.sdk.bases.hook")
    with_hook = loaded_by("import airflow.sdk, airflow_provider_workflow.hooks.workflow")
    assert (with_hook - bare) & set(HEAVY) == set()


def test_the_senders_load_one_http_library_each() -> None:
    client = "import airflow_provider_workflow.client.client"
    assert loaded_by(client) & {"requests", "aiohttp"} == set()
    assert "aiohttp" not in loaded_by(f"{client}, airflow_provider_workflow.client.over_requests")
