"""The states of an inbox, in the service's own words (docs/service.md 2.2). New ones may come."""

INITIALIZING = "initializing"
ACTIVE = "active"
PAUSED = "paused"
DELETING = "deleting"
"""Its name may stand for another inbox already."""
FAILED = "initialization_failure"
"""Only deleting and creating it again helps (docs/service.md 2.2)."""
