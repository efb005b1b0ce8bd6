"""Notes of runs, which Airflow's UI renders as Markdown, and strings that would misuse that."""

from __future__ import annotations

import re

from airflow_provider_workflow.airflow_internals import MAX_NOTE_LENGTH

IMAGE = "![x](http://tracker.example/x.png)"
HOSTILE = "`" * 500 + IMAGE
FIXED = re.compile(r"[A-Za-z0-9 ,:_-]*")


def is_harmless(note: str | None) -> bool:
    """Whether a note has Markdown of ours alone: code, each piece of it complete, between plain words."""
    pieces = str(note).split("`")
    return (
        len(pieces) % 2 == 1 and len(str(note)) < MAX_NOTE_LENGTH and all(map(FIXED.fullmatch, pieces[::2]))
    )
