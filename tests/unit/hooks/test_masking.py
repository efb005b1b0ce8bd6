"""What Airflow's logs must not show, and that a triggerer does not collect every token that ever was."""

from __future__ import annotations

import pytest
from airflow.sdk._shared.secrets_masker import _secrets_masker, redact
from airflow.sdk.log import mask_secret

from airflow_provider_workflow import airflow_internals


def shown(*secrets: str) -> list[str]:
    """Which of them a log would show."""
    return [secret for secret in secrets if redact(secret) == secret]


def tokens(connection: str, count: int) -> list[str]:
    return [f"token-{number}-of-{connection}" for number in range(count)]


def test_of_a_connection_only_the_last_secrets_stay_masked() -> None:
    before = len(_secrets_masker().patterns)
    renewed = tokens("orders", 500)
    for token in renewed:
        airflow_internals.mask_in_triggerer(token, "orders")
    assert shown(*renewed) == renewed[: -airflow_internals.MOST_SECRETS]
    assert len(_secrets_masker().patterns) == before + airflow_internals.MOST_SECRETS


def test_a_secret_that_is_met_again_is_as_good_as_new() -> None:
    kept, *others = tokens("orders", 30)
    for token in others:
        airflow_internals.mask_in_triggerer(kept, "orders")
        airflow_internals.mask_in_triggerer(token, "orders")
    assert not shown(kept, *others[1 - airflow_internals.MOST_SECRETS :])


def test_connections_do_not_push_out_each_other_s_secrets() -> None:
    quiet = tokens("quiet", airflow_internals.MOST_SECRETS)
    for token in quiet:
        airflow_internals.mask_in_triggerer(token, "quiet")
    for token in tokens("busy", 30):
        airflow_internals.mask_in_triggerer(token, "busy")
    assert not shown(*quiet)


def test_what_airflow_masks_itself_stays_masked() -> None:
    mask_secret("the password of a connection")
    for token in tokens("orders", 30):
        airflow_internals.mask_in_triggerer(token, "orders")
    assert not shown("the password of a connection")


def test_with_another_masker_secrets_stay_masked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("airflow.sdk._shared.secrets_masker._secrets_masker")
    renewed = tokens("orders", 30)
    for token in renewed:
        airflow_internals.mask_in_triggerer(token, "orders")
    assert not shown(*renewed)
