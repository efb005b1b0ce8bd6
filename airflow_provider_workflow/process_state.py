"""
The state that this package keeps in the process, and a function that clears it for tests.

It imports no other module: a module that is not loaded has no state.
"""

from __future__ import annotations

import sys
from typing import Any

STATE = (
    "cli.output._unmasked",
    "client.inboxes._fitting",
    "client.inboxes._known",
    "client.attempt.GATES",
    "client.tokens.TOKENS",
    "client.settings._named",
    "observers._names",
    "observers._warned",
    "dispatch.quarantine._checked_at",
    "dispatch.quarantine._reported",
    "plugin.service.ANSWERS",
    "plugin.listeners.USES",
)
"""
Module and attribute of all state that outlives a test: a collection, or an object that can be created without
arguments. A unit test reports missing entries.
"""


def reset() -> None:
    """
    Clear the state of the process: tokens, rate limits, inbox names, reported messages.

    For tests. No call of the service may be in progress.
    """
    for path in STATE:
        module_name, _, attribute = path.rpartition(".")
        module = sys.modules.get(f"{__package__}.{module_name}")
        if module is not None:
            _empty(getattr(module, attribute))


def _empty(value: Any) -> None:
    """Empty a value in place, as other modules hold references to it."""
    if hasattr(value, "clear"):
        value.clear()
    else:
        vars(value).update(vars(type(value)()))
