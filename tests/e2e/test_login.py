"""``login`` beside a real Airflow: what it stores from the command line is what tasks use."""

import json
import subprocess
import sys

import pytest

from tests.e2e.users import SCRIPT, SECONDS, log_in

IN_AIRFLOW = [sys.executable, "-m", "airflow", "workflow"]


@pytest.fixture
def environment(stage):
    """Airflow's, with a redirect URI at which nobody listens."""
    user = json.loads(stage.airflow.env["AIRFLOW_CONN_WORKFLOW_USER"])
    redirect = "http://127.0.0.1:1/workflow/callback"
    user["extra"]["redirect_uri"] = redirect
    stage.emulator.store.configure(redirect_uris=(*stage.emulator.store.settings.redirect_uris, redirect))
    return {**stage.airflow.env, "AIRFLOW_CONN_WORKFLOW_USER": json.dumps(user)}


def run(arguments, environment, **options):
    return subprocess.run(
        arguments, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False, **options
    )


def stored_tokens(stage):
    """What the service issued to users, of which nothing may be shown."""
    oauth = stage.emulator.store.tokens
    issued = [token.value for token in oauth.issued.values() if token.grant == "authorization_code"]
    return [*oauth.refresh_tokens, *issued]


def test_a_user_logs_in_and_a_task_uses_his_token(stage, inbox, environment):
    url, output = log_in("workflow_user", environment)
    assert url.startswith(f"{stage.emulator.base_url}/v2/authorize?")
    assert not [token for token in stored_tokens(stage) if token in url + output]

    ids = inbox.put({"n": 1})
    # In a process of its own: a triggerer would keep the token from other tests.
    assert stage.start("poking_listener_of_a_user", inbox).succeeds()["started"]["count"] == 1
    stage.check_one_run_each(inbox, ids)
    (used_token,) = {
        request.headers["authorization"].removeprefix("Bearer ") for request in inbox.requests("ack")
    }
    assert stage.emulator.store.tokens.issued[used_token].grant == "authorization_code", "the one just stored"


def test_a_connection_of_the_database_is_logged_in_and_examined(stage, environment, inbox):
    connection = json.loads(environment["AIRFLOW_CONN_WORKFLOW_USER"])
    stage.airflow.api.request(
        "POST",
        "connections",
        json={
            "connection_id": "workflow_in_database",
            **{name: connection[name] for name in ("conn_type", "host", "login", "password")},
            "extra": json.dumps(connection["extra"]),
        },
    )
    stage.airflow.wait_for_dags(["listener"])
    options = ["--conn-id", "workflow_in_database", "--inbox", inbox.name]
    examine = [*SCRIPT, "doctor", *options, "--output", "json"]
    before = {finding["check"]: finding for finding in json.loads(run(examine, environment).stdout)}
    assert before["user_tokens"]["fix"] == "run: airflow-workflow login --conn-id workflow_in_database"

    _, output = log_in("workflow_in_database", environment)

    process = run([*IN_AIRFLOW, *examine[1:]], environment)
    after = {finding["check"]: finding for finding in json.loads(process.stdout)}
    assert process.returncode == 0, process.stdout
    checks = ("connection", "token", "inbox_api", "triggerer", "dags")
    assert {after[check]["status"] for check in checks} == {"ok"}
    assert "listener listener" in after["dags"]["detail"]
    assert "Traceback" not in process.stderr
    assert not [token for token in stored_tokens(stage) if token in process.stdout + process.stderr + output]
