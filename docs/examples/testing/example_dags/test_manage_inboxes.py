"""Operators that set up and pause an inbox: the emulator shows its status."""

import logging

import manage_inboxes


def status(workflow_emulator):
    return workflow_emulator.summary("tickets")["inbox"]["status"]


def test_the_inbox_is_set_up_once(workflow_emulator):
    runs = [manage_inboxes.set_up_tickets().test() for _ in range(2)]

    first, second = (run.get_task_instance("ensure").xcom_pull(task_ids="ensure") for run in runs)
    assert first["id"] == second["id"]
    assert status(workflow_emulator) == "active"


def test_the_inbox_is_paused_during_the_maintenance(workflow_emulator, caplog):
    caplog.set_level(logging.INFO)
    workflow_emulator.open_inbox("tickets")

    run = manage_inboxes.maintain_tickets().test()

    assert run.state == "success"
    assert "Inbox tickets is paused" in caplog.text
    assert status(workflow_emulator) == "active"


def test_the_inbox_is_resumed_after_a_maintenance_that_failed(workflow_emulator, monkeypatch):
    workflow_emulator.open_inbox("tickets")
    monkeypatch.setattr(manage_inboxes, "log", None)  # now the maintenance raises an AttributeError

    run = manage_inboxes.maintain_tickets().test()

    assert run.get_task_instance("maintain").state == "failed"
    assert run.get_task_instance("pause").state == "success"
    assert status(workflow_emulator) == "active"
