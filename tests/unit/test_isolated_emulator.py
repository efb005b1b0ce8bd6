"""A test with the fixture ``workflow_emulator`` reaches the emulator, whatever its environment says."""

from __future__ import annotations

import json

import pytest

from airflow_provider_workflow.hooks.workflow import WorkflowHook
from airflow_provider_workflow.pytest_plugin import WorkflowEmulator, workflow_emulator

__all__ = ["workflow_emulator"]
pytest_plugins = ["pytester"]

REAL = {
    "conn_type": "workflow",
    "host": "http://real.invalid",
    "login": "production",
    "password": "production",
    "extra": {"oauth_url": "http://real.invalid/token"},
}


async def uses_the_emulator(hook: WorkflowHook, emulator: WorkflowEmulator) -> bool:
    """Whether tasks and triggers that use a hook get the inbox of the emulator."""
    emulator.open_inbox("orders")
    (inbox,) = hook.list_inboxes()
    async with hook.async_client() as client:
        assert client.settings == hook.settings
    return inbox.get("name") == "orders"


@pytest.fixture
def in_the_environment(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Environment variables that are set before the fixture is used."""
    for name, value in request.param.items():
        monkeypatch.setenv(name, value)


def environment(**variables: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("in_the_environment", [variables], indirect=True)


@pytest.mark.parametrize(
    "in_the_environment",
    [
        {"HTTP_PROXY": "http://127.0.0.1:9", "http_proxy": "http://127.0.0.1:9"},
        {"ALL_PROXY": "socks5://127.0.0.1:9", "NO_PROXY": "elsewhere.example"},
        {"HTTP_PROXY": "http://127.0.0.1:9", "no_proxy": "elsewhere.example"},
        {"HTTP_PROXY": "http://127.0.0.1:9", "NO_PROXY": "*"},
        {"REQUESTS_CA_BUNDLE": "/no/such/file"},
    ],
    indirect=True,
)
async def test_proxies_and_certificates_of_the_environment_are_not_used(
    in_the_environment: None, workflow_emulator: WorkflowEmulator
) -> None:
    assert await uses_the_emulator(WorkflowHook(), workflow_emulator)


@environment(AIRFLOW_CONN_WORKFLOW_DEFAULT=json.dumps(REAL), AIRFLOW_CONN_WORKFLOW_OTHER=json.dumps(REAL))
async def test_every_connection_leads_to_the_emulator(
    in_the_environment: None, workflow_emulator: WorkflowEmulator
) -> None:
    for conn_id in ("workflow_default", "workflow_other"):
        assert await uses_the_emulator(WorkflowHook(conn_id), workflow_emulator)


TEST = """
from airflow_provider_workflow.hooks.workflow import WorkflowHook

async def test_it(workflow_emulator):
    for hook in (WorkflowHook(), WorkflowHook("workflow_other")):
        assert WorkflowHook.get_connection(hook.workflow_conn_id).login == "production"
        assert hook.list_inboxes() == []
        async with hook.async_client() as client:
            assert client.settings.base_url == workflow_emulator.server.base_url
"""


def test_a_connection_of_a_secrets_backend_leads_to_it_too(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Airflow asks it before the environment, and keeps the first one for the whole process."""
    file = pytester.path / "connections.json"
    file.write_text(json.dumps(dict.fromkeys(("workflow_default", "workflow_other"), REAL)))
    for name in ("AIRFLOW__SECRETS__BACKEND", "AIRFLOW__WORKERS__SECRETS_BACKEND"):
        monkeypatch.setenv(name, "airflow.secrets.local_filesystem.LocalFilesystemBackend")
        monkeypatch.setenv(f"{name}_KWARGS", json.dumps({"connections_file_path": str(file)}))
    pytester.makepyfile(TEST)

    pytester.runpytest_subprocess("-o", "asyncio_mode=auto").assert_outcomes(passed=1)
