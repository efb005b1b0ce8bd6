"""What Airflow reads of this provider when it discovers providers."""

from __future__ import annotations

from typing import Any

from airflow_provider_workflow.hooks.fields import (
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

_CONFIG = {
    "workflow": {
        "description": "How the workflow provider behaves.",
        "options": {
            "max_event_streams": {
                "description": (
                    "Event streams that one triggerer keeps open at once. Inboxes beyond that are"
                    " polled. Each stream holds one socket."
                ),
                "version_added": "0.1.0",
                "type": "integer",
                "example": None,
                "default": "500",
            }
        },
    }
}


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
                "operators.ensure_inbox",
                "operators.inbox_admin",
                "operators.guess",
                "operators.templates",
                "operators.promotion",
            )
        ],
        "sensors": [_modules("sensors.inbox")],
        "triggers": [_modules("triggers.inbox", "triggers.inbox_active")],
        "extra-links": [f"{_PACKAGE}.links.WorkflowEditorLink", f"{_PACKAGE}.links.StartedRunsLink"],
        "config": _CONFIG,
    }


def _modules(*names: str) -> dict[str, Any]:
    return {
        "integration-name": _INTEGRATION,
        "python-modules": [f"{_PACKAGE}.{name}" for name in names],
    }
