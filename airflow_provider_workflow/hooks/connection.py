"""
The connection form, stated once: the provider info and the hook's form methods both read it.

Imports nothing when it is loaded: Airflow reads the provider info in every one of its processes.
"""

from __future__ import annotations

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
        "description": "Required: address of the token endpoint, exactly as the service gives it.",
        # Required, as null is none of its types; the page shows an example where it shows placeholders.
        "schema": {"type": "string", "examples": ["https://api.example.com/oauth/token/"]},
    },
    "auth_url": _text("Authorization URL", "Base of the authorization page; only needed for user tokens."),
    "scope": _text("Scope", "Scope of the access token for trigger inboxes.", "external"),
    "inbox_path": _text("Inbox path", "Path prefix of the trigger inbox API.", "/trigger-inbox/v1"),
    "templates_path": _text("Templates path", "Path of the templates endpoint.", "/v1/workflow-templates"),
    "redirect_uri": _text("Redirect URI", "Where the authorization page returns to; only for user tokens."),
    "timeout": {
        "label": "Timeout (seconds)",
        "description": "For one attempt, from connecting to the last byte of the answer.",
        "schema": {"type": ["number", "null"], "default": 30, "minimum": 1, "maximum": 3600},
    },
    "verify": _text("Verify TLS", "true, false, or the path of a file with CA certificates.", "true"),
    "grant": {
        "label": "Grant",
        "description": "Whose tokens are used: client_credentials for the application's own, "
        "refresh_token for those of a user who has logged in.",
        "schema": {
            "type": ["string", "null"],
            "default": "client_credentials",
            "enum": ["client_credentials", "refresh_token"],
        },
    },
}


def form_widgets() -> dict[str, Any]:
    """The form's own fields as Airflow 3.1 shows them."""
    from flask_appbuilder.fieldwidgets import BS3TextFieldWidget
    from wtforms import StringField

    return {
        name: StringField(
            field["label"],
            widget=BS3TextFieldWidget(),
            description=field["description"],
            default=field["schema"].get("default"),
        )
        for name, field in CONN_FIELDS.items()
    }
