"""The tokens of a user in a real Airflow: a trigger and a task renew them, and nobody can read them."""

import json

from tests.e2e.users import store

NAME = "workflow_token__workflow_user"


def refreshes(stage) -> int:
    return sum(
        request.operation == "token" and b"refresh_token" in request.body
        for request in stage.emulator.requests
    )


def test_a_user_s_tokens_are_renewed_by_trigger_and_task_and_shown_to_nobody(stage, inbox):
    # Due at once. Later ones are refused at the service, in the trigger and in the task.
    first = store(stage.emulator, stage.airflow.env, expires_in=1)
    run = stage.start("listener_of_a_user", inbox).reaches("deferred")
    stage.until(lambda: len(inbox.requests("lease")) > 1, "the trigger to look")
    assert refreshes(stage) == 1
    stage.emulator.store.tokens.expire()
    stage.until(lambda: refreshes(stage) == 2, "the trigger to renew")
    ids = inbox.put({"n": 1})
    assert run.succeeds()["started"]["count"] == 1
    stage.check_one_run_each(inbox, ids)
    headers = {
        request.headers["authorization"] for request in inbox.requests("ack") + inbox.requests("lease")
    }
    assert f"Bearer {first['access_token']}" not in headers

    stage.emulator.store.tokens.expire()
    ids = inbox.put({"n": 2})
    run = stage.start("poking_listener_of_a_user", inbox)
    assert run.succeeds()["started"]["count"] == 1
    assert refreshes(stage) == 3
    variable = stage.airflow.api.request("GET", f"variables/{NAME}")
    values = json.loads(variable["value"])
    assert (values["access_token"], values["refresh_token"]) == ("***", "***")
