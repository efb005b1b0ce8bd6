"""The entry point that Airflow calls when it discovers providers, and the form of a connection."""

from __future__ import annotations

from typing import Any

from airflow_provider_workflow.config import OPTIONS, SECTION

_PACKAGE = "airflow_provider_workflow"
_INTEGRATION = "Workflow"
# Its first part is Documentation of pyproject.toml.
_SERVICE_PAGE = "https://airflow-provider-workflow.invalid/what-is-the-service.html"
CONN_TYPE = "workflow"
HOOK_NAME = "Workflow"
HIDDEN = ["port", "schema"]
RELABELED = {
    "host": "Base URL",
    "login": "Client ID",
    "password": "Client secret",
}
PLACEHOLDERS = {
    "host": "https://api.example.com",
    "login": "client ID of your application",
    "password": "client secret of your application",
}


def _text(label: str, description: str, default: str | None = None) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": ["string", "null"]}
    if default is not None:
        schema["default"] = default
    return {"label": label, "description": description, "schema": schema}


CONN_FIELDS: dict[str, dict[str, Any]] = {
    # Not "token_url": Airflow masks every extra whose name contains "token".
    "oauth_url": {
        "label": "Token URL",
        "description": "Required: URL of the token endpoint, exactly as the service states it.",
        # The field is required, as its type does not allow null; the UI shows an example as placeholder.
        "schema": {"type": "string", "examples": ["https://api.example.com/oauth/token/"]},
    },
    "auth_url": _text("Authorization URL", "Base URL of the authorization page; only for user tokens."),
    "scope": _text("Scope", "Scope of the access token for trigger inboxes.", "external"),
    "inbox_path": _text("Inbox path", "Path prefix of the trigger inbox API.", "/trigger-inbox/v1"),
    "templates_path": _text("Templates path", "Path of the templates endpoint.", "/v1/workflow-templates"),
    "redirect_uri": _text(
        "Redirect URI", "URL to which the authorization page redirects; only for user tokens."
    ),
    "timeout": {
        "label": "Timeout (seconds)",
        "description": "Limit for a request: connection, handshake and complete answer together.",
        "schema": {"type": ["number", "null"], "default": 30, "minimum": 1, "maximum": 3600},
    },
    "verify": _text("Verify TLS", "true, false, or the path of a file with CA certificates.", "true"),
    "grant": {
        "label": "Grant",
        "description": "Which tokens are used: client_credentials for those of the application, "
        "refresh_token for those of a user who has logged in.",
        "schema": {
            "type": ["string", "null"],
            "default": "client_credentials",
            "enum": ["client_credentials", "refresh_token"],
        },
    },
}

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
        "integrations": [
            {"integration-name": _INTEGRATION, "external-doc-url": _SERVICE_PAGE, "tags": ["service"]}
        ],
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
        "plugins": [{"name": "workflow", "plugin-class": f"{_PACKAGE}.plugin.WorkflowPlugin"}],
        "config": _CONFIG,
        "cli": [f"{_PACKAGE}.cli.main.workflow_commands"],
    }


def _modules(*names: str) -> dict[str, Any]:
    return {
        "integration-name": _INTEGRATION,
        "python-modules": [f"{_PACKAGE}.{name}" for name in names],
    }
