"""
Every endpoint of the service, once: each function checks its arguments and returns a ``Call``.

Bad arguments raise ``ValueError`` that names the field and its range, before anything is sent.
"""

from airflow_provider_workflow.client.api.inboxes import (
    create_inbox,
    delete_inbox,
    ensure_inbox,
    get_inbox,
    list_inboxes,
    pause_inbox,
    resume_inbox,
    update_inbox,
)
from airflow_provider_workflow.client.api.messages import (
    acknowledge_messages,
    events,
    lease_messages,
    list_messages,
    next_cursor,
    release_messages,
)
from airflow_provider_workflow.client.api.promotions import unenroll_promotion
from airflow_provider_workflow.client.api.suggestions import guess, list_templates
from airflow_provider_workflow.client.api.tokens import (
    app_token,
    authorization_url,
    exchange_code,
    refresh_user_token,
)

__all__ = [
    "acknowledge_messages",
    "app_token",
    "authorization_url",
    "create_inbox",
    "delete_inbox",
    "ensure_inbox",
    "events",
    "exchange_code",
    "get_inbox",
    "guess",
    "lease_messages",
    "list_inboxes",
    "list_messages",
    "list_templates",
    "next_cursor",
    "pause_inbox",
    "refresh_user_token",
    "release_messages",
    "resume_inbox",
    "unenroll_promotion",
    "update_inbox",
]
