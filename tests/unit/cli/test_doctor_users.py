"""``doctor``: the tokens of a user are looked at, and none of them is used up."""

from __future__ import annotations

import pytest

from airflow_provider_workflow.client.errors import TokenStoreError
from airflow_provider_workflow.hooks.user_tokens import VariableStore
from airflow_provider_workflow.hooks.workflow import WorkflowHook
from tests.unit.cli.diagnosing import Doctor, connect, doctor
from tests.unit.client.isolation import isolated
from tests.unit.client.stores import HOURS_10, logged_in

__all__ = ["connect", "doctor", "isolated"]


USER = {"grant": "refresh_token"}


def store(doctor: Doctor, life: float = HOURS_10, scope: str = "external") -> None:
    tokens = logged_in(doctor.emulator, life, scope)
    VariableStore(doctor.connect({"verify": False, **USER}).settings, lambda _: None).write(tokens)


def refreshes(doctor: Doctor) -> int:
    return sum(
        each.operation == "token" and b"refresh_token" in each.body for each in doctor.emulator.requests
    )


def test_a_user_who_has_logged_in(doctor: Doctor) -> None:
    store(doctor)
    doctor.emulator.open_inbox("orders")
    before = dict(doctor.kept)
    found = doctor.examine(USER)
    assert found.exit_code == 0
    assert found["user_tokens"]["detail"].startswith("stored; the access token is valid until 20")
    assert found["inbox orders"]["status"] == "ok"
    assert (refreshes(doctor), doctor.kept) == (0, before)


def test_a_user_who_has_not_logged_in(doctor: Doctor) -> None:
    found = doctor.examine(USER)
    assert found.of("failed") == ["user_tokens"]
    assert found["user_tokens"]["fix"] == "run: airflow-workflow login --conn-id workflow_default"
    assert found.of("skipped") == ["inbox_api", "inboxes"]


def test_tokens_that_cannot_be_read(doctor: Doctor) -> None:
    store(doctor)
    name = next(iter(doctor.kept))
    doctor.kept[name] = "of somebody else"
    found = doctor.examine(USER)
    assert found.of("failed") == ["user_tokens"]
    assert "changed by hand" in found["user_tokens"]["detail"]


def test_a_database_that_is_away(doctor: Doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    def away() -> None:
        raise TokenStoreError("Airflow's database cannot be used from here")

    monkeypatch.setattr("airflow_provider_workflow.cli.doctor_connection.check_store", away)
    found = doctor.examine(USER)
    assert found.of("failed") == ["user_tokens"]
    assert "Airflow's database" in found["user_tokens"]["detail"]


@pytest.mark.parametrize("life", [-3600.0, 60.0])
def test_a_refresh_token_is_never_used_up(life: float, doctor: Doctor) -> None:
    store(doctor, life)
    before = dict(doctor.kept)
    found = doctor.examine(USER)
    assert found.exit_code == 0
    assert (refreshes(doctor), doctor.kept) == (0, before)
    if life < 0:
        assert "the next task or trigger renews it" in found["user_tokens"]["detail"]
        assert found.of("skipped") == ["inbox_api", "inboxes"]


def test_a_stored_token_that_is_refused_is_not_renewed(doctor: Doctor) -> None:
    store(doctor)
    doctor.emulator.store.tokens.expire()
    before = dict(doctor.kept)
    found = doctor.examine(USER)
    assert found.exit_code == 0
    assert found.of("skipped") == ["inbox_api", "inboxes"]
    assert "before it expires" in found["inbox_api"]["detail"]
    assert (refreshes(doctor), doctor.kept) == (0, before)


def test_a_user_who_granted_another_scope(doctor: Doctor) -> None:
    store(doctor, scope="workflow")
    found = doctor.examine(USER)
    assert found.of("failed") == ["inbox_api"]
    assert found["inbox_api"]["fix"].startswith("correct its Scope and log in again")


def test_nothing_of_the_diagnosis_stays_in_the_caches(doctor: Doctor) -> None:
    store(doctor)
    doctor.examine(USER)
    doctor.emulator.store.tokens.expire()
    assert WorkflowHook().list_inboxes() == []
    assert refreshes(doctor) == 1
