"""What Airflow leaves to a deferrable sensor: its flags while it looks on the worker."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from airflow.providers.common.compat.sdk import (
    AirflowFailException,
    AirflowSensorTimeout,
    AirflowSkipException,
)


@contextmanager
def skipping_instead(*, soft_fail: bool, never_fail: bool) -> Iterator[None]:
    """What poke mode does for ``soft_fail`` and ``never_fail``, for code that poke mode does not call."""
    try:
        yield
    except AirflowSkipException:
        raise
    except Exception as error:
        final = isinstance(error, (AirflowSensorTimeout, AirflowFailException))
        if never_fail or (soft_fail and final):
            raise AirflowSkipException(f"Skipped instead of failing: {error}") from error
        raise
