"""How a trigger refuses a wrong argument without ending the triggerer."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from airflow.exceptions import AirflowOptionalProviderFeatureException


@contextmanager
def sparing_the_triggerer() -> Iterator[None]:
    """
    Turn what a trigger's constructor raises into the one error that a triggerer survives, a TypeError.

    Arguments and versions are checked when the DAG file is parsed, where a ValueError is right. Where they
    are wrong only for the triggerer, which may have another version of this package or of Airflow, it would
    end the triggerer with all of its triggers, again and again.
    """
    try:
        yield
    except (ValueError, AirflowOptionalProviderFeatureException) as error:
        if is_in_a_triggerer():
            raise TypeError(str(error)) from error
        raise


def is_in_a_triggerer() -> bool:
    """Whether an event loop is running: triggerers make triggers in one, and nobody parses DAGs there."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
