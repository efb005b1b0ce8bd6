"""Messages are acknowledged after the work, and redelivered if it fails."""

import logging

import inbox_work_then_acknowledge as example


def test_invoices_are_acknowledged_after_the_work(workflow_emulator, caplog):
    caplog.set_level(logging.INFO)
    (invoice,) = workflow_emulator.put("invoices", {"amount": 20})

    run = example.work_then_acknowledge().test()

    assert run.state == "success"
    assert f"Invoice {invoice}: {{'amount': 20}}" in caplog.text
    workflow_emulator.assert_acknowledged("invoices", [invoice])


def test_invoices_are_redelivered_if_the_work_fails(workflow_emulator, monkeypatch):
    (invoice,) = workflow_emulator.put("invoices", {"amount": 20})
    monkeypatch.setattr(example, "log", None)  # now the work raises an AttributeError

    run = example.work_then_acknowledge().test()

    assert run.state == "failed"
    assert workflow_emulator.statuses("invoices") == {invoice: "leased"}
    workflow_emulator.advance(1800)
    assert workflow_emulator.statuses("invoices") == {invoice: "available"}
