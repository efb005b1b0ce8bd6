"""
Assets that stand for trigger inboxes, ``workflow-inbox://<connection id>/<inbox>``, and their events.

The URI is only a name. Airflow passes each URI to :func:`sanitize_uri`, so different spellings name the same
asset. Airflow imports this module wherever it reads such a URI.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, quote, unquote

from airflow_provider_workflow.client import tolerant_json
from airflow_provider_workflow.client.arguments import require_text

if TYPE_CHECKING:
    from airflow.sdk import Asset

SCHEME = "workflow-inbox"
# It does not quote the URI, which may contain a password.
WRONG = (
    f"the asset URI must have the form {SCHEME}://<connection id>/<inbox>, with special characters of the"
    " names percent-encoded as UTF-8 (a slash as %2F, a colon as %3A, a question mark as %3F);"
    " create_asset(inbox=..., workflow_conn_id=...) of airflow_provider_workflow.assets builds it"
)


def create_asset(
    *,
    inbox: str,
    workflow_conn_id: str = "workflow_default",
    name: str | None = None,
    extra: dict[str, Any] | None = None,
    **arguments: Any,
) -> Asset:
    """
    Create the asset of an inbox; its name may have any characters.

    :param inbox: id or name of the inbox. Id and name make different assets: use the same one everywhere.
    :param workflow_conn_id: id of the Airflow connection.
    :param name: name of the asset; its URI by default.
    :param extra: ``extra`` of the asset.
    :param arguments: further arguments of ``Asset``, such as ``watchers`` and ``group``.
    :raises ValueError: an argument is invalid; the text names it.
    """
    from airflow.sdk import Asset

    uri = f"{SCHEME}://{_part('workflow_conn_id', workflow_conn_id)}/{_part('inbox', inbox)}"
    return Asset(name=name or uri, uri=uri, extra=extra, **arguments)


def schedule_of(asset: Asset) -> Any:
    """
    The schedule of a DAG with one run for all events of the asset since the run before.

    It is for the notices of ``WorkflowInboxNoticeTrigger``, of which one run leases all messages: Airflow 3.4
    starts a run for each event of ``schedule=[asset]``, and most runs would find an empty inbox.

    :return: a timetable that batches events from Airflow 3.4 on; a list of the asset before.
    """
    from airflow_provider_workflow.airflow_internals import airflow_release

    if airflow_release() < (3, 4):
        return [asset]
    from airflow.sdk import AssetTriggeredTimetable  # type: ignore[attr-defined, unused-ignore]  # Airflow 3.4

    return AssetTriggeredTimetable(asset, batch_asset_events=True)


def messages_of(event: Any) -> list[dict[str, Any]]:
    """
    The messages of an asset event that ``WorkflowInboxEventTrigger`` made.

    Each has ``id``, ``created_at``, ``payload`` and ``message_attributes``. A message whose ``lease_count``
    in these attributes is above 1 may have been part of an earlier event of this asset: the triggerer was
    killed or stopped, the DAG was paused, or an acknowledgement failed.

    :param event: one of ``triggering_asset_events[asset]``, its ``extra``, or the payload in it.
    :raises ValueError: the event was not made by this trigger.
    """
    extra = event if isinstance(event, Mapping) else getattr(event, "extra", None)
    payload = extra.get("payload", extra) if isinstance(extra, Mapping) else None
    text = payload.get("messages") if isinstance(payload, Mapping) else None
    if not isinstance(text, str):
        raise ValueError("the event carries no messages: it was not made by WorkflowInboxEventTrigger")
    messages: list[dict[str, Any]] = tolerant_json.decode(text)
    return messages


def sanitize_uri(uri: SplitResult) -> SplitResult:
    """
    Normalize the URI of an inbox.

    :raises ValueError: the URI has another form; the text says which it has, and how to build it.
    """
    connection, inbox = uri.netloc, uri.path[1:]
    if not connection or not inbox or {*"@:"} & {*connection} or "/" in inbox or uri.query:
        raise ValueError(WRONG)
    try:
        connection, inbox = (unquote(part, errors="strict") for part in (connection, inbox))
    except UnicodeDecodeError:
        raise ValueError(WRONG) from None
    return uri._replace(
        netloc=_part("workflow_conn_id", connection), path="/" + _part("inbox", inbox), fragment=""
    )


def _part(field: str, value: str) -> str:
    """Encode a name as one part of the URI."""
    try:
        return quote(require_text(field, value), safe="")
    except UnicodeEncodeError:
        raise ValueError(f"{field} cannot be part of a URI: it has a lone surrogate") from None
