"""
What this package remembers for as long as its process lives, and how tests make it forget that.

It imports nothing: a module that is not loaded has nothing to forget.
"""

from __future__ import annotations

import sys
from typing import Any

STATE = (
    "cli.output._unmasked",
    "client.inboxes._known",
    "client.attempt.GATES",
    "client.tokens.TOKENS",
    "client.settings._named",
    "dispatch.lease._paused",
    "hooks.masking.masked",
    "metrics._names",
    "dispatch.quarantine._looked",
    "dispatch.quarantine._reported",
    "metrics._complained",
    "triggers.event_watcher._remembered",
)
"""
Module and attribute of everything that one test would inherit from the test before it: a collection, or
an object that can be created without arguments. A unit test names what is missing here.
"""


def reset() -> None:
    """
    Make the package forget what it learned: tokens, rate limits, inbox names, reported messages.

    For tests that use the package in their own process. Nothing may be running meanwhile.
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
