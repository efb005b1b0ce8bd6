"""Secrets that logs must not show."""

from __future__ import annotations


def mask(secret: str) -> None:
    """Let nobody print this secret."""
    from airflow.sdk.log import mask_secret

    mask_secret(secret)


def mask_here(secret: str) -> None:
    """
    Let nobody in this process print this secret.

    To tell the supervisor from a triggerer is a blocking call, and made from a thread it breaks the
    triggerer's own talk with the supervisor before Airflow 3.3.
    """
    from airflow.sdk._shared.secrets_masker import mask_secret

    mask_secret(secret)
