"""``MessageQueueTrigger(scheme="workflow-inbox")`` becomes the event trigger; or there is a fix."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.unit.loading import modules_of

pytestmark = pytest.mark.since(3, 3, "the acknowledging of asset events")


def test_it_has_what_older_versions_of_the_base_class_ask_for() -> None:
    from airflow_provider_workflow.queues.inbox import WorkflowInboxMessageQueueProvider

    provider = WorkflowInboxMessageQueueProvider()
    assert provider.scheme_matches("workflow-inbox")
    assert not provider.scheme_matches("workflow")
    assert not provider.queue_matches("workflow-inbox://workflow_default/orders")
    assert provider.trigger_kwargs("workflow-inbox://workflow_default/orders") == {}


@pytest.mark.slow
def test_importing_it_loads_next_to_nothing() -> None:
    base = "import airflow.exceptions, airflow.providers.common.messaging.providers.base_provider"
    more = modules_of("import airflow_provider_workflow.queues.inbox", base)

    assert more - {"airflow_provider_workflow"} == {
        "airflow_provider_workflow.queues",
        "airflow_provider_workflow.queues.inbox",
    }


@pytest.mark.slow
def test_without_its_provider_it_names_the_cure() -> None:
    code = (
        "import sys\n"
        "sys.modules['airflow.providers.common.messaging.providers'] = None\n"
        "try:\n"
        "    import airflow_provider_workflow.queues.inbox\n"
        "except Exception as error:\n"
        "    print(type(error).__name__, error)\n"
    )
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    error = process.stdout.splitlines()[-1]

    assert error.startswith("AirflowOptionalProviderFeatureException")
    assert "pip install 'airflow-provider-workflow[common-messaging]'" in error
