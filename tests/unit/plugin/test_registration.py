"""What Airflow loads as a plugin, in which process, and what is switched off."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
from fastapi import FastAPI

from airflow_provider_workflow import __version__
from airflow_provider_workflow.get_provider_info import get_provider_info
from airflow_provider_workflow.plugin.registration import WorkflowPlugin
from tests.unit.documents import ROOT

LOAD = """
import sys
sys.path.insert(0, sys.argv[1])
from airflow import plugins_manager

assert "fastapi" not in sys.modules
plugins_manager.ensure_plugins_loaded()
plugins_manager.integrate_macros_plugins()
assert "airflow_provider_workflow.plugin.registration" in sys.modules
print([name for name in ("fastapi", "airflow_provider_workflow.plugin.app") if name in sys.modules])
"""


@pytest.mark.slow
def test_a_process_that_serves_no_pages_imports_no_fastapi(tmp_path: Path) -> None:
    about = tmp_path / "plugin_of_a_test-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: plugin-of-a-test\nVersion: 1\n")
    entry = "workflow = airflow_provider_workflow.plugin.registration:WorkflowPlugin"
    (about / "entry_points.txt").write_text(f"[airflow.plugins]\n{entry}\n")

    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", LOAD, str(tmp_path)],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip

    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("plugin", [WorkflowPlugin(), WorkflowPlugin], ids=["instance", "class"])
def test_an_application_and_a_page_are_registered(plugin: WorkflowPlugin) -> None:
    (app,) = plugin.fastapi_apps
    (page,) = plugin.react_apps

    assert (app["url_prefix"], type(app["app"])) == ("/workflow", FastAPI)
    assert (page["name"], page["destination"], page["url_route"]) == ("Inboxes", "nav", "workflow-inboxes")


@pytest.mark.parametrize("value", ["off", "False", "0", "of"])
def test_nothing_is_registered_when_the_page_is_off(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__WORKFLOW__PAGE", value)

    assert WorkflowPlugin().fastapi_apps == []
    assert WorkflowPlugin().react_apps == []


@pytest.mark.parametrize(
    ("base_url", "path"),
    [("http://localhost:8080", ""), ("https://example.com/airflow/", "/airflow"), ("/", "")],
)
def test_the_module_is_found_below_the_path_of_the_base_url(
    base_url: str, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", base_url)

    expected = f"{path}/workflow/static/inboxes.js?v={__version__}"
    assert [each["bundle_url"] for each in WorkflowPlugin().react_apps[:1]] == [expected]


def test_entry_point_and_provider_name_the_same_plugin() -> None:
    (plugin,) = get_provider_info()["plugins"]
    module, _, name = plugin["plugin-class"].rpartition(".")

    assert getattr(import_module(module), name) is WorkflowPlugin
    assert plugin["name"] == WorkflowPlugin.name
    assert f'workflow = "{module}:{name}"' in (ROOT / "pyproject.toml").read_text()
