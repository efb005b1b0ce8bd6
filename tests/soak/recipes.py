"""What runs during a soak: recipes that are given messages, and watchers of inboxes that stay empty."""

from __future__ import annotations

from tests.crash.recipes import Recipe, deliveries_of, runs_of

LISTENER_CONN = "workflow_listener"
"""Has CA certificates of its own: the session for them is opened and closed by each run of the listener."""
USER_CONN = "workflow_user"
"""Works with the tokens of a user."""

RECIPES = (
    Recipe("sensor with dispatch", "soak-sensor", runs_of("handle_sensor")),
    Recipe("notice with dispatch", "soak-notice", runs_of("handle_notice")),
    Recipe("messages in asset events", "soak-events", deliveries_of("soak_events")),
)
"""Nobody is killed here, so that each message is worked on once by every one of them."""

IDLE = {f"soak-idle-{number}": "workflow_default" for number in range(4)} | {"soak-idle-user": USER_CONN}
"""Inboxes without messages, and the connection of the watcher of each."""

INBOXES = (*(recipe.inbox for recipe in RECIPES), *IDLE)
"""Each has one event stream while it is listened to."""
