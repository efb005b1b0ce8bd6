"""``login`` beside a real Airflow: what it stores from the command line is what tasks use."""

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.cli import browser
from tests.unit.cli.browser import Browser

SECONDS = 90
SCRIPT = [str(Path(sys.executable).with_name("airflow-workflow"))]
IN_AIRFLOW = [sys.executable, "-m", "airflow", "workflow"]


@pytest.fixture
def environment(stage):
    """Airflow's, with a browser in which somebody approves, and a port of this machine to return to."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    user = json.loads(stage.airflow.env["AIRFLOW_CONN_WORKFLOW_USER"])
    redirect = f"http://127.0.0.1:{port}/workflow/callback"
    user["extra"]["redirect_uri"] = redirect
    stage.emulator.store.configure(redirect_uris=(*stage.emulator.store.settings.redirect_uris, redirect))
    return {
        **stage.airflow.env,
        "AIRFLOW_CONN_WORKFLOW_USER": json.dumps(user),
        "BROWSER": f"{sys.executable} {browser.__file__} %s",
    }


def run(arguments, environment, **options):
    return subprocess.run(
        arguments, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False, **options
    )


def stored_tokens(stage):
    """What the service issued to users, of which nothing may be shown."""
    oauth = stage.emulator.store.oauth
    tokens = stage.emulator.store.tokens.issued.values()
    return [*oauth.refresh_tokens, *(token.value for token in tokens if token.grant == "authorization_code")]


def test_a_user_logs_in_by_browser_and_a_task_uses_his_token(stage, inbox, environment):
    done = run([*SCRIPT, "login", "--conn-id", "workflow_user"], environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"{stage.emulator.auth_url}/v2/authorize?")
    assert "Logged in" in done.stderr
    assert not [token for token in stored_tokens(stage) if token in done.stdout + done.stderr]

    ids = inbox.put({"n": 1})
    # In a process of its own: a triggerer would keep the token from other tests.
    assert stage.start("poking_listener_of_a_user", inbox).succeeds()["started"]["count"] == 1
    stage.check_one_run_each(inbox, ids)
    (used,) = {each.headers["authorization"].removeprefix("Bearer ") for each in inbox.requests("ack")}
    assert stage.emulator.store.tokens.issued[used].grant == "authorization_code", "the one just stored"


def test_doctor_finds_its_way_to_the_service_and_through_this_airflow(stage, environment):
    stage.airflow.wait_for_dags(["listener"])
    done = run([*SCRIPT, "doctor"], environment)
    # Inboxes of other tests may be paused, or worse.
    for check in ("client", "scope", "inbox_api", "triggerer", "listener listener", "fernet_key"):
        assert f"ok       {check}: " in done.stdout
    assert "Traceback" not in done.stderr


def test_a_connection_of_the_database_is_logged_in_by_pasting_and_examined(stage, environment, inbox):
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
    examine = [*SCRIPT, "doctor", "--conn-id", "workflow_in_database", "--inbox", inbox.name, "-o", "json"]
    before = {each["check"]: each for each in json.loads(run(examine, environment).stdout)}
    assert before["user_tokens"]["fix"] == "run: airflow-workflow login --conn-id workflow_in_database"

    with subprocess.Popen(
        [*SCRIPT, "login", "--conn-id", "workflow_in_database", "--paste"],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        address = process.stdout.readline().strip()
        _, said = process.communicate(Browser().decide(address) + "\n", timeout=SECONDS)
    assert process.returncode == 0, said
    assert "Logged in" in said

    done = run([*IN_AIRFLOW, *examine[1:]], environment)
    after = {each["check"]: each for each in json.loads(done.stdout)}
    assert done.returncode == 0, done.stdout
    assert after["user_tokens"]["status"] == after["inbox_api"]["status"] == "ok"
    assert not [token for token in stored_tokens(stage) if token in done.stdout + done.stderr + said]
