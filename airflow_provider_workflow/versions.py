"""Which Airflow this is, and the one sentence for what an older one cannot do."""

from __future__ import annotations

import re

from airflow import __version__


def airflow_version() -> str:
    """The whole version of the installed Airflow."""
    return __version__


def airflow_release() -> tuple[int, int]:
    """Major and minor version of the installed Airflow."""
    major, minor = re.findall(r"\d+", __version__)[:2]
    return int(major), int(minor)


def needs(feature: str, cure: str) -> Exception:
    """
    The error for a feature that came with Airflow 3.3.

    :param feature: what was asked for.
    :param cure: what to use instead.
    """
    from airflow.exceptions import AirflowOptionalProviderFeatureException

    return AirflowOptionalProviderFeatureException(
        f"{feature} needs Airflow 3.3 or later, and this is {__version__}; {cure}."
    )
