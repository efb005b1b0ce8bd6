"""
The options of ``[workflow]`` in Airflow's configuration, and the functions that read them.

The provider info lists the options. Every process of Airflow reads it, so this module imports no other module
when it is loaded.
"""

from __future__ import annotations

import sys
from typing import Any

SECTION = "workflow"


def _option(description: str, default: str, kind: str = "string", since: str = "0.1.0") -> dict[str, Any]:
    return {
        "description": description,
        "version_added": since,
        "type": kind,
        "example": None,
        "default": default,
    }


OPTIONS: dict[str, dict[str, Any]] = {
    "max_event_streams": _option(
        "Maximum number of event streams that a triggerer keeps open, each with one socket. Further inboxes"
        " are only polled.",
        "500",
        "integer",
    ),
    "quarantine_check_seconds": _option(
        "Minimum number of seconds between two checks of an inbox for quarantined messages in one process. A"
        " task or trigger checks when it finds its inbox empty, and reports each quarantined message with an"
        " ERROR log line and a metric. With 0 only notice triggers report.",
        "600",
        "integer",
    ),
    "page": _option(
        "on or off. Whether the API server serves the page Inboxes and its API. An invalid value means off."
        " Takes effect when the API server starts.",
        "on",
    ),
    "traces": _option(
        "on or off. Whether tasks and triggers make spans of OpenTelemetry if a tracer is configured. An"
        " invalid value means off.",
        "on",
    ),
    "observers": _option(
        "Comma-separated paths of functions, such as company.inboxes.observe, that are called with each event"
        " of an inbox (docs/metrics.md). They must not block. What they raise is logged as a WARNING.",
        "",
    ),
    "payload_objectstorage_path": _option(
        "Folder of an object storage for payloads, such as s3://connection_id@bucket/folder, that all workers"
        " can use. Payloads of payload_objectstorage_threshold bytes or more are written there, and the conf"
        " of a run has a reference (docs/payloads.md). Empty keeps all payloads in Airflow's database.",
        "",
        since="0.3.0",
    ),
    "payload_objectstorage_threshold": _option(
        "Size in bytes from which on a payload is written to payload_objectstorage_path. With 0 every payload"
        " is, with a negative number none.",
        "65536",
        "integer",
        since="0.3.0",
    ),
}


def observers() -> list[str]:
    """Paths of the user's own observers."""
    return [path for part in str(_read("observers")).split(",") if (path := part.strip())]


def max_event_streams() -> int:
    """Maximum number of event streams that one process keeps open."""
    return int(_read("max_event_streams"))


def quarantine_check_seconds() -> int:
    """Minimum seconds between two checks of an inbox for quarantined messages; 0: no checks."""
    return int(_read("quarantine_check_seconds"))


def payload_objectstorage_path() -> str:
    """
    Folder of an object storage for payloads; empty if they stay in Airflow's database.

    As for Airflow's XComs, they stay there with a negative threshold too.
    """
    path = str(_read("payload_objectstorage_path")).strip()
    return path if path and payload_objectstorage_threshold() >= 0 else ""


def payload_objectstorage_threshold() -> int:
    """Size in bytes from which on a payload is written to that folder."""
    return int(_read("payload_objectstorage_threshold"))


def page() -> bool:
    """Whether the API server serves the page of inboxes and its API."""
    return _is_on("page")


def traces() -> bool:
    """
    Whether spans are made: a tracer is configured in this process, and the option does not forbid it.

    OpenTelemetry is not imported for this: whatever configures a tracer has imported it.
    """
    api = sys.modules.get("opentelemetry.trace")
    if api is None or isinstance(
        api.get_tracer_provider(), (api.ProxyTracerProvider, api.NoOpTracerProvider)
    ):
        return False
    return _is_on("traces")


def _is_on(option: str) -> bool:
    return str(_read(option)).strip().lower() in ("on", "true", "1")


def _read(option: str) -> Any:
    from airflow.providers.common.compat.sdk import conf

    read = conf.getint if OPTIONS[option]["type"] == "integer" else conf.get
    return read(SECTION, option, fallback=OPTIONS[option]["default"])
