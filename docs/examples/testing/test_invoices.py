from invoices import dag


def test_invoices_are_added_up_and_acknowledged(workflow_emulator):
    ids = workflow_emulator.put("invoices", {"amount": 20}, {"amount": 22})

    run = dag.test()

    assert run.state == "success"
    assert run.get_task_instance("add_up").xcom_pull(task_ids="add_up") == 42
    workflow_emulator.assert_acknowledged("invoices", ids)


def test_an_invoice_without_an_amount_is_redelivered(workflow_emulator):
    workflow_emulator.put("invoices", {"note": "no amount"})

    run = dag.test()

    assert run.state == "failed"
    workflow_emulator.assert_acknowledged("invoices", [])
    workflow_emulator.advance(1800)
    assert list(workflow_emulator.statuses("invoices").values()) == ["available"]
