"""A test with the fixture ``workflow_emulator`` reaches the emulator, whatever its environment says."""

from __future__ import annotations

import json

import pytest

from airflow_provider_workflow import config
from airflow_provider_workflow.client.errors import ConfigurationError
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


TEST = """
import pytest
from airflow_provider_workflow.hooks.workflow import WorkflowHook

@pytest.fixture
def asked_before():
    assert WorkflowHook.get_connection("workflow_default").login == "production"

async def test_it(asked_before, workflow_emulator, monkeypatch):
    emulator = workflow_emulator.server
    monkeypatch.setenv("AIRFLOW_CONN_WORKFLOW_OTHER", emulator.connection_json())
    for hook in (WorkflowHook(), WorkflowHook("workflow_other")):
        assert hook.list_inboxes() == []
        async with hook.async_client() as client:
            assert client.settings.base_url == emulator.base_url
    with pytest.raises(Exception, match="third"):
        WorkflowHook("third").list_inboxes()
"""


def test_a_secrets_backend_is_not_used(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """Airflow asks it before the environment, and keeps the first one for the whole process."""
    file = pytester.path / "connections.json"
    file.write_text(json.dumps(dict.fromkeys(("workflow_default", "workflow_other", "third"), REAL)))
    for name in ("AIRFLOW__SECRETS__BACKEND", "AIRFLOW__WORKERS__SECRETS_BACKEND"):
        monkeypatch.setenv(name, "airflow.secrets.local_filesystem.LocalFilesystemBackend")
        monkeypatch.setenv(f"{name}_KWARGS", json.dumps({"connections_file_path": str(file)}))
    pytester.makepyfile(TEST)

    pytester.runpytest_subprocess("-o", "asyncio_mode=auto").assert_outcomes(passed=1)


@environment(AIRFLOW_CONN_WORKFLOW_OTHER=json.dumps(REAL))
async def test_another_connection_is_refused_unless_it_leads_to_the_emulator(
    in_the_environment: None, workflow_emulator: WorkflowEmulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigurationError) as raised:
        WorkflowHook("workflow_other").list_inboxes()
    assert raised.value.problems == [
        "workflow_other leads to real.invalid, and a test with workflow_emulator reaches only the emulator"
        " (set AIRFLOW_CONN_WORKFLOW_OTHER to workflow_emulator.server.connection_json())"
    ]
    with pytest.raises(ConfigurationError, match="reaches only the emulator"):
        async with WorkflowHook("workflow_other").async_client():
            pass

    connection = workflow_emulator.server.connection_json()
    monkeypatch.setenv("AIRFLOW_CONN_WORKFLOW_OTHER", connection)
    assert await uses_the_emulator(WorkflowHook("workflow_other"), workflow_emulator)


async def test_the_default_connection_cannot_be_changed_to_the_real_service(
    workflow_emulator: WorkflowEmulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_WORKFLOW_DEFAULT", json.dumps(REAL))
    with pytest.raises(ConfigurationError, match="workflow_default leads to real"):
        WorkflowHook().list_inboxes()


@environment(
    AIRFLOW__WORKFLOW__PAGE="off",
    AIRFLOW__WORKFLOW__MAX_EVENT_STREAMS="0",
    AIRFLOW__WORKFLOW__QUARANTINE_CHECK_SECONDS="7",
)
def test_options_have_their_defaults(
    in_the_environment: None, workflow_emulator: WorkflowEmulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (config.page(), config.max_event_streams(), config.quarantine_check_seconds()) == (True, 500, 600)
    monkeypatch.setenv("AIRFLOW__WORKFLOW__PAGE", "off")
    assert not config.page()
