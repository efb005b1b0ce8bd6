"""The emulator guesses a workflow from the words of a text, always the same for the same text."""

from guess_and_templates import suggest_workflows


def result(run, task_id):
    return run.get_task_instance(task_id).xcom_pull(task_ids=task_id)


def test_a_workflow_is_guessed_from_the_text_of_the_form(workflow_emulator):
    run = suggest_workflows().test(run_conf={"text": "Send an e-mail for each invoice"})

    assert run.state == "success"
    assert result(run, "guess")["title"] == "Send an e-mail for each invoice"
    assert "Add Row in Spreadsheet for each New Order in Shop" in [
        each["title"] for each in result(run, "templates")
    ]


def test_a_text_that_describes_no_workflow_is_skipped(workflow_emulator):
    run = suggest_workflows().test(run_conf={"text": "hello"})

    assert run.get_task_instance("guess").state == "skipped"
    assert run.get_task_instance("templates").state == "success"
