"""``doctor`` on this Airflow: what its version allows, its Fernet key, settings that matter to us."""

from __future__ import annotations

import inspect

import pytest

from airflow_provider_workflow.cli import doctor_deployment
from airflow_provider_workflow.triggers.event import WorkflowInboxEventTrigger
from tests.unit.cli.diagnosing import Doctor, connect, doctor
from tests.unit.client.isolation import isolated

__all__ = ["connect", "doctor", "isolated"]


@pytest.mark.parametrize(
    ("version", "lacks"),
    [
        ("3.2.2", ['acknowledge="auto"', "EventTrigger", "restart"]),
        ("3.3.1", ["restart"]),
        ("3.3.2", []),
        ("4.0.0rc1", []),
    ],
)
def test_what_this_airflow_does_not_allow_is_named(
    version: str, lacks: list[str], doctor: Doctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("airflow_provider_workflow.airflow_internals.__version__", version)
    found = doctor.examine()
    assert found.exit_code == 0
    assert found["airflow"]["status"] == ("warning" if lacks else "ok")
    assert version in found["airflow"]["detail"]
    features = [feature for feature, _ in doctor_deployment.FEATURES]
    said = [feature for feature in features if feature in found["airflow"]["detail"]]
    assert len(said) == len(lacks)
    assert all(name in found["airflow"]["detail"] for name in lacks)


@pytest.mark.parametrize(
    ("key", "status", "said"),
    [("", "warning", "are stored unencrypted"), ("no-key-at-all", "failed", "not a Fernet key")],
)
def test_a_fernet_key_that_is_missing_or_none(
    key: str, status: str, said: str, doctor: Doctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__CORE__FERNET_KEY", key)
    found = doctor.examine()
    assert found["fernet_key"]["status"] == status
    assert said in found["fernet_key"]["detail"]
    assert "[core] fernet_key" in found["fernet_key"]["fix"]
    assert "no-key-at-all" not in found.shown


def test_the_fernet_key_itself_is_not_shown(doctor: Doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = ["A" * 43 + "=", "B" * 43 + "="]
    monkeypatch.setenv("AIRFLOW__CORE__FERNET_KEY", ",".join(keys))
    found = doctor.examine()
    assert found["fernet_key"]["status"] == "ok"
    assert not [key for key in keys if key in found.shown]


@pytest.mark.parametrize("installed", [True, False])
def test_an_optional_provider_is_named_with_the_way_to_install_it(
    installed: bool, doctor: Doctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = "airflow_provider_workflow" if installed else "airflow.no_such_provider.at_all"
    monkeypatch.setattr(doctor_deployment, "MESSAGING", module)
    found = doctor.examine()["common.messaging"]
    assert found["status"] == ("ok" if installed else "warning")
    assert ("pip install" in (found["fix"] or "")) is not installed


@pytest.mark.parametrize(("seconds", "status"), [(5, "ok"), (20, "warning")])
def test_how_long_a_listener_settles(
    seconds: int, status: str, doctor: Doctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__WORKERS__MIN_HEARTBEAT_INTERVAL", str(seconds))
    found = doctor.examine()["heartbeat"]
    assert found["status"] == status
    assert f"after {seconds + 1} s" in found["detail"]
    assert ("min_heartbeat_interval" in (found["fix"] or "")) is (status == "warning")


@pytest.mark.parametrize(("seconds", "status"), [(300, "ok"), (600, "warning")])
def test_a_lease_has_to_outlive_the_time_for_an_acknowledgement(
    seconds: int, status: str, doctor: Doctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__TRIGGERER__SHARED_STREAM_ACK_TIMEOUT", str(seconds))
    monkeypatch.setattr("airflow_provider_workflow.airflow_internals.__version__", "3.3.2")
    found = doctor.examine()["ack_timeout"]
    assert found["status"] == status
    assert ("shared_stream_ack_timeout" in (found["fix"] or "")) is (status == "warning")


def test_the_lease_that_is_compared_is_the_trigger_s_own() -> None:
    given = inspect.signature(WorkflowInboxEventTrigger).parameters["lease_seconds"].default
    assert given == doctor_deployment.EVENT_LEASE_SECONDS


def test_what_an_older_airflow_does_not_have_is_not_examined(
    doctor: Doctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("airflow_provider_workflow.airflow_internals.__version__", "3.2.2")
    assert "ack_timeout" not in [each["check"] for each in doctor.examine().findings]
