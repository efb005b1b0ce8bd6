"""``doctor`` on inboxes: the fix of each state and reason, messages that are lost or about to be."""

from __future__ import annotations

import os

import pytest

from airflow_provider_workflow.cli import doctor as module
from tests.unit.cli.diagnosing import Doctor, connect, doctor
from tests.unit.client.isolation import isolated

__all__ = ["connect", "doctor", "isolated"]


def force(doctor: Doctor, status: str, reason: str | None = None, name: str = "orders") -> None:
    doctor.emulator.store.inboxes.force(doctor.emulator.open_inbox(name), status, reason)


@pytest.mark.parametrize(
    ("reason", "status", "fix"),
    [
        ("user", "warning", "a user paused it"),
        ("authentication", "failed", "connect the account again"),
        ("authentication_access_revoked", "failed", "grant it again"),
        ("partner_revoked", "failed", "ask the maker of the connected app"),
        ("subscribe_failed", "failed", "check the subscription's inputs"),
        ("migrate_failed", "failed", "if that fails, delete it"),
        ("abandoned", "failed", "unpause its listener"),
        ("upstream_failures", "failed", "check whether the connected app has a problem"),
        ("newer_than_us", "failed", "find out why the inbox was paused"),
        (None, "failed", "find out why the inbox was paused"),
    ],
)
def test_a_paused_inbox_has_the_fix_of_its_reason(
    reason: str | None, status: str, fix: str, doctor: Doctor
) -> None:
    force(doctor, "paused", reason)
    found = doctor.examine()
    assert found["inbox orders"]["status"] == status
    assert found["inbox orders"]["detail"] == (
        f"paused ({reason or 'no reason given'}): new events are dropped meanwhile;"
        " 0 waiting, 0 leased, 0 quarantined"
    )
    assert fix in found["inbox orders"]["fix"]
    assert "airflow-workflow inbox resume orders" in found["inbox orders"]["fix"]
    assert found.exit_code == (1 if status == "failed" else 0)


def test_the_fix_is_a_command_that_can_be_pasted(doctor: Doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    force(doctor, "paused", "user", "my {orders}")
    doctor.connect({"verify": False})
    monkeypatch.setenv("AIRFLOW_CONN_OTHER", os.environ["AIRFLOW_CONN_WORKFLOW_DEFAULT"])
    found = doctor.examine(None, "--conn-id", "other")
    assert found["inbox my {orders}"]["fix"].endswith("inbox resume 'my {orders}' --conn-id other")


@pytest.mark.specification("2.2 initialization_failure")
def test_an_inbox_that_failed_to_initialize(doctor: Doctor) -> None:
    force(doctor, "initialization_failure", "subscribe_failed")
    found = doctor.examine()
    assert found.of("failed") == ["inbox orders"]
    assert found["inbox orders"]["detail"] == "initialization_failure (subscribe_failed)"
    assert found["inbox orders"]["fix"] == (
        "delete it (airflow-workflow inbox delete orders), and create it again"
    )


@pytest.mark.parametrize(
    ("status", "fix"), [("initializing", "wait"), ("deleting", "nothing, if the deletion is intended")]
)
def test_an_inbox_on_its_way(status: str, fix: str, doctor: Doctor) -> None:
    force(doctor, status)
    found = doctor.examine()
    assert found.exit_code == 0
    assert found["inbox orders"]["status"] == "warning"
    assert found["inbox orders"]["fix"].startswith(fix)


def test_a_state_that_is_newer_than_this_provider(doctor: Doctor) -> None:
    doctor.emulator.store.inboxes.find(doctor.emulator.open_inbox("orders")).status = "dreaming"
    found = doctor.examine()
    assert found["inbox orders"]["status"] == "warning"
    assert found["inbox orders"]["detail"].startswith("dreaming; ")


def test_messages_in_quarantine_are_counted(doctor: Doctor) -> None:
    doctor.emulator.store.configure(quarantine_after=1)
    doctor.emulator.put("orders", *range(4))
    inbox_id = doctor.emulator.open_inbox("orders")
    doctor.emulator.store.messages.lease(inbox_id, 300, 100)
    doctor.emulator.store.messages.expire(inbox_id)
    doctor.emulator.put("orders", "a live one")
    found = doctor.examine()
    assert found.exit_code == 0
    assert found["inbox orders"]["status"] == "warning"
    assert found["inbox orders"]["detail"] == "active; 1 waiting, 0 leased, 4 quarantined"
    assert "inbox messages orders --status quarantined" in found["inbox orders"]["fix"]


def test_messages_with_a_high_delivery_count_are_counted(doctor: Doctor) -> None:
    doctor.emulator.put("orders", "n", attributes={"lease_count": 3})
    doctor.emulator.put("orders", "m", attributes={"lease_count": 2})
    found = doctor.examine()
    assert found["inbox orders"]["status"] == "warning"
    assert found["inbox orders"]["detail"].endswith("; 1 have a delivery count of 3 or more")
    assert "see the log of the listener" in found["inbox orders"]["fix"]


def test_one_inbox_alone_may_be_examined(doctor: Doctor) -> None:
    force(doctor, "paused", "abandoned", "another")
    inbox_id = doctor.emulator.open_inbox("orders")
    for given in ("orders", inbox_id):
        found = doctor.examine(None, "--inbox", given)
        assert found.exit_code == 0
        assert "inbox another" not in found.shown
        assert found["inbox orders"]["status"] == "ok"


@pytest.mark.parametrize("given", ["nothing", "00000000-0000-4000-8000-000000000000"])
def test_an_inbox_that_is_not_there(given: str, doctor: Doctor) -> None:
    found = doctor.examine(None, "--inbox", given)
    assert found.of("failed") == ["inbox_api"]
    assert "airflow-workflow inbox list" in found["inbox_api"]["fix"]


def test_an_inbox_without_a_name_goes_by_its_id(doctor: Doctor) -> None:
    inbox = doctor.emulator.store.inboxes.find(doctor.emulator.open_inbox("orders"))
    inbox.name = None
    assert doctor.examine()[f"inbox {inbox.id}"]["status"] == "ok"


def test_an_account_of_many_inboxes_is_examined_in_part(
    doctor: Doctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_INBOXES", 2)
    for name in ("a", "b", "c"):
        doctor.emulator.open_inbox(name)
    found = doctor.examine()
    assert found["inboxes"]["status"] == "warning"
    assert found["inboxes"]["detail"] == "1 more were not examined"
    assert sum(each["check"].startswith("inbox ") for each in found.findings) == 2


def test_an_inbox_of_many_messages_is_listed_in_part(doctor: Doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_PAGES", 2)
    doctor.emulator.store.configure(page_size=2)
    doctor.emulator.put("orders", *range(5))
    found = doctor.examine()
    assert found["inbox orders"]["detail"].endswith("4 waiting, 0 leased, 0 quarantined, among the first 4")


def test_a_listing_that_fails_does_not_end_the_diagnosis(doctor: Doctor) -> None:
    doctor.emulator.open_inbox("orders")
    doctor.emulator.fault("status", operation="list_messages", status=500, times=None)
    found = doctor.examine()
    assert found.of("failed") == ["inbox orders"]
    assert found["triggerer"]["status"] == "warning"
