"""
Secrets that no log of Airflow prints.

A task has Airflow mask them (``mask``), and ends. A triggerer lives for months, and masks them in its own
way (``mask_here``).
"""

from __future__ import annotations

import threading

from airflow.sdk.log import mask_secret as mask

from airflow_provider_workflow import airflow_internals

__all__ = ["MOST_SECRETS", "mask", "mask_here", "masked"]

MOST_SECRETS = 6
"""
Of a connection, secrets that stay masked in a triggerer: access token, refresh token and the Variable that
holds both, of this renewal and of the one before. What came before those is used up.
"""

masked: dict[str, list[str]] = {}
"""For each connection id, its secrets that are masked now."""
_lock = threading.Lock()


def mask_here(secret: str, connection_id: str) -> None:
    """
    Let nobody in this process print this secret, which takes the place of an older one of its connection.

    A triggerer lives for months: Airflow would keep every token that ever was, in ever longer regular
    expressions that are compiled with each new one.
    """
    with _lock:
        kept = [*(each for each in masked.get(connection_id, ()) if each != secret), secret]
        masked[connection_id] = kept[-MOST_SECRETS:]
        for old in kept[:-MOST_SECRETS]:
            airflow_internals.forget_masked(old)
    airflow_internals.mask_in_this_process(secret)
