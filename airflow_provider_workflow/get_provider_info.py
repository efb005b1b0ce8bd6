"""The entry point that Airflow calls when it discovers providers."""

from __future__ import annotations

from typing import Any

from airflow_provider_workflow.config import OPTIONS, SECTION
from airflow_provider_workflow.hooks.connection import (
    CONN_FIELDS,
    CONN_TYPE,
    HIDDEN,
    HOOK_NAME,
    PLACEHOLDERS,
    RELABELED,
)

_PACKAGE = "airflow_provider_workflow"
_INTEGRATION = "Workflow"

_CONNECTION_TYPE = {
    "connection-type": CONN_TYPE,
    "hook-class-name": f"{_PACKAGE}.hooks.workflow.WorkflowHook",
    "hook-name": HOOK_NAME,
    "ui-field-behaviour": {
        "hidden-fields": HIDDEN,
        "relabeling": RELABELED,
        "placeholders": PLACEHOLDERS,
    },
    "conn-fields": CONN_FIELDS,
}

_TASK_DECORATOR = {
    "name": "workflow_inbox",
    "class-name": f"{_PACKAGE}.decorators.workflow_inbox.workflow_inbox_task",
}

_CONFIG = {SECTION: {"description": "Options of the workflow provider.", "options": OPTIONS}}


def get_provider_info() -> dict[str, Any]:
    """The provider's metadata, as ``airflow/provider_info.schema.json`` describes it."""
    return {
        "package-name": "airflow-provider-workflow",
        "name": "Workflow",
        "description": "Every trigger inbox message starts exactly one DAG run.",
        "connection-types": [_CONNECTION_TYPE],
        "hooks": [_modules("hooks.workflow")],
        "operators": [
            _modules(
                "operators.inbox",
                "operators.manage_inbox",
                "operators.dead_letters",
                "operators.workflows",
            )
        ],
        "sensors": [_modules("sensors.inbox")],
        "triggers": [_modules("triggers.inbox", "triggers.notice", "triggers.event")],
        "task-decorators": [_TASK_DECORATOR],
        "queues": [f"{_PACKAGE}.queues.inbox.WorkflowInboxMessageQueueProvider"],
        "asset-uris": [
            {
                "schemes": ["workflow-inbox"],
                "handler": f"{_PACKAGE}.assets.sanitize_uri",
                "factory": f"{_PACKAGE}.assets.create_asset",
            }
        ],
        "extra-links": [
            f"{_PACKAGE}.links.WorkflowEditorLink",
            f"{_PACKAGE}.links.StartedRunsLink",
            f"{_PACKAGE}.links.ReplayedRunLink",
        ],
        "plugins": [{"name": "workflow", "plugin-class": f"{_PACKAGE}.plugin.registration.WorkflowPlugin"}],
        "config": _CONFIG,
        "cli": [f"{_PACKAGE}.cli.main.workflow_commands"],
    }


def _modules(*names: str) -> dict[str, Any]:
    return {
        "integration-name": _INTEGRATION,
        "python-modules": [f"{_PACKAGE}.{name}" for name in names],
    }
