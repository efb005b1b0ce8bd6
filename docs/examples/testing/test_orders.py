from orders import dag, handler


def test_each_order_starts_its_run(workflow_emulator):
    ids = workflow_emulator.put("orders", {"price": 20}, {"price": 22})

    run = dag.test()

    started = run.get_task_instance("start_runs").xcom_pull(task_ids="start_runs")["started"]
    assert started["ids"] == ids
    workflow_emulator.assert_acknowledged("orders", ids)


def test_an_order_is_priced(workflow_emulator):
    message = {"id": "1", "payload": {"price": 20}}

    run = handler.test(run_conf={"inbox_id": "1", "message": message})

    assert run.get_task_instance("price").xcom_pull(task_ids="price") == 20
