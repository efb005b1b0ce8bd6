"""
The definition of the connection form, for the provider info.

It imports no other module when it is loaded, as every process of Airflow reads the provider info.
"""

from __future__ import annotations

import os
from typing import Any

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
        "description": "Limit for connecting, for each wait for data, and for the body of an answer.",
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


def why_missing(conn_id: str) -> str:
    """Why Airflow does not find a connection, and what to do about it."""
    variable = f"AIRFLOW_CONN_{conn_id.upper()}"
    if variable in os.environ:
        return f"Airflow cannot read {variable} (give a URI or JSON)"
    fix = f"add it in Airflow's UI (Admin, Connections), set {variable}, or name another"
    return f"Airflow has no connection {conn_id!r} ({fix})"
