"""
The options of ``[workflow]`` in Airflow's configuration, stated once: the provider info lists them, and
the functions read them.

Imports nothing: Airflow reads the provider info in every one of its processes.
"""

from __future__ import annotations

from typing import Any

SECTION = "workflow"
MAX_EVENT_STREAMS = "max_event_streams"
QUARANTINE_CHECK_SECONDS = "quarantine_check_seconds"

OPTIONS: dict[str, dict[str, Any]] = {
    MAX_EVENT_STREAMS: {
        "description": (
            "Event streams that one triggerer keeps open at once. Inboxes beyond that are"
            " polled. Each stream holds one socket."
        ),
        "version_added": "0.1.0",
        "type": "integer",
        "example": None,
        "default": "500",
    },
    QUARANTINE_CHECK_SECONDS: {
        "description": (
            "A task or trigger that finds its inbox empty lists it to find quarantined messages, at most"
            " every so many seconds in one process, and raises an alarm for them. 0 switches that off."
        ),
        "version_added": "0.1.0",
        "type": "integer",
        "example": None,
        "default": "600",
    },
}


def max_event_streams() -> int:
    """Event streams that one process keeps open at once."""
    return _number(MAX_EVENT_STREAMS)


def quarantine_check_seconds() -> int:
    """Seconds between two looks for quarantined messages of an inbox; 0 for none."""
    return _number(QUARANTINE_CHECK_SECONDS)


def _number(option: str) -> int:
    from airflow.providers.common.compat.sdk import conf

    return int(conf.getint(SECTION, option, fallback=int(OPTIONS[option]["default"])))
