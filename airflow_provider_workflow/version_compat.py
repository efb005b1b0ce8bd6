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


def answers_before_commit(fastapi: str) -> bool:
    """
    Whether an API server confirms a DAG run before it has committed it, so that a confirmed run may be lost.

    From 0.118 on FastAPI ends a request's database session after the answer, unless the session is bound to
    the function, as it is from Airflow 3.2 on. Airflow 3.1.1 to 3.1.8 exclude such a FastAPI; 3.1.0 does not.

    :param fastapi: the version of FastAPI beside this Airflow.
    """
    major, minor = re.findall(r"\d+", fastapi)[:2]
    return airflow_release() < (3, 2) and (int(major), int(minor)) >= (0, 118)


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
