"""
The options of ``[workflow]`` in Airflow's configuration, and the functions that read them.

The provider info lists the options. Every process of Airflow reads it, so this module imports no other module
when it is loaded.
"""

from __future__ import annotations

import sys
from typing import Any

SECTION = "workflow"
MAX_EVENT_STREAMS = "max_event_streams"
QUARANTINE_CHECK_SECONDS = "quarantine_check_seconds"
PAGE = "page"
TRACES = "traces"
OBSERVERS = "observers"
SWITCH = {"on": True, "true": True, "1": True, "off": False, "false": False, "0": False}

OPTIONS: dict[str, dict[str, Any]] = {
    MAX_EVENT_STREAMS: {
        "description": (
            "Maximum number of event streams that a triggerer keeps open. Further inboxes are only"
            " polled. Each stream uses one socket."
        ),
        "version_added": "0.1.0",
        "type": "integer",
        "example": None,
        "default": "500",
    },
    QUARANTINE_CHECK_SECONDS: {
        "description": (
            "Minimum number of seconds between two checks of an inbox for quarantined messages in one"
            " process. A task or trigger checks when it finds its inbox empty, and reports each"
            " quarantined message with an ERROR log line and a metric. 0 disables the checks."
        ),
        "version_added": "0.1.0",
        "type": "integer",
        "example": None,
        "default": "600",
    },
    PAGE: {
        "description": (
            "on or off. Whether the API server serves the page Inboxes and its API. If off, or if the value"
            " is invalid, nothing of this provider is mounted. Takes effect when the API server starts."
        ),
        "version_added": "0.2.0",
        "type": "string",
        "example": None,
        "default": "on",
    },
    TRACES: {
        "description": (
            "on or off. Whether tasks and triggers make spans of OpenTelemetry if a tracer is configured: one"
            " for each lease, started run, batch, acknowledgement and release. An invalid value means off."
        ),
        "version_added": "0.2.0",
        "type": "string",
        "example": None,
        "default": "on",
    },
    OBSERVERS: {
        "description": (
            "Comma-separated paths of functions, such as company.inboxes.observe, that are called with each"
            " event of an inbox: leased, started, acknowledged and so on (docs/metrics.md). They must not"
            " block. What they raise is logged as a WARNING."
        ),
        "version_added": "0.2.0",
        "type": "string",
        "example": "company.inboxes.observe",
        "default": "",
    },
}


def observers() -> list[str]:
    """Paths of the user's own observers."""
    from airflow.providers.common.compat.sdk import conf

    value = str(conf.get(SECTION, OBSERVERS, fallback=""))
    return [path for part in value.split(",") if (path := part.strip())]


def max_event_streams() -> int:
    """Maximum number of event streams that one process keeps open."""
    return _number(MAX_EVENT_STREAMS)


def quarantine_check_seconds() -> int:
    """Minimum seconds between two checks of an inbox for quarantined messages; 0: no checks."""
    return _number(QUARANTINE_CHECK_SECONDS)


def page() -> bool:
    """Whether the API server serves the page of inboxes and its API."""
    return _switch(PAGE)


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
    return _switch(TRACES)


def _switch(option: str) -> bool:
    from airflow.providers.common.compat.sdk import conf

    value = str(conf.get(SECTION, option, fallback=OPTIONS[option]["default"]))
    return SWITCH.get(value.strip().lower(), False)


def _number(option: str) -> int:
    from airflow.providers.common.compat.sdk import conf

    return int(conf.getint(SECTION, option, fallback=int(OPTIONS[option]["default"])))
