"""An Airflow of its own that logs at DEBUG, in which everything is done once with marked secrets."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from airflow_provider_workflow.emulator.server import EmulatorServer
from tests.e2e.stage import Inbox, Stage
from tests.e2e.users import log_in
from tests.marks import Marks
from tools.local_airflow import LocalAirflow

HERE = Path(__file__).parent
NAME = "marked-though-no-secret"
"""Names the inboxes, and whatever else has a name: where it is found, a secret would be found."""
CONNECTIONS = ("workflow_default", "workflow_wrong", "workflow_user")
COMMANDS = [
    *(["doctor", "--conn-id", connection] for connection in CONNECTIONS),
    *(["token", "--conn-id", connection] for connection in CONNECTIONS),
    *(["inbox", "list", "--conn-id", connection] for connection in CONNECTIONS),
    ["inbox", "show", NAME, "--output", "json"],
    ["inbox", "show", f"{NAME}-ensured", "--output", "json"],
    ["inbox", "drain", f"{NAME}-drained", "--trigger-dag-id", "target", "--output", "json"],
    ["inbox", "drain", NAME, "--trigger-dag-id", "target", "--conn-id", "workflow_wrong"],
]
ONE_AFTER_THE_OTHER = (
    "import json, sys; from airflow_provider_workflow.cli.main import main;"
    "[print('==', code, each, flush=True) for each in json.load(sys.stdin) for code in [main(each)]]"
)


@dataclass
class Sealed:
    """
    What was done, and what was seen of it outside Airflow's home.

    :param marks: of every secret that took part.
    :param outputs: what commands printed, and what the API answered to those who gave it secrets.
    """

    stage: Stage
    marks: Marks
    outputs: dict[str, str] = field(default_factory=dict)

    @property
    def airflow(self) -> LocalAirflow:
        return self.stage.airflow

    def inbox(self, suffix: str = "") -> Inbox:
        return Inbox.open(self.stage.emulator, NAME + suffix)

    def extra(self, conn_id: str) -> dict[str, Any]:
        fields: dict[str, Any] = self.stage.emulator.connection()["extra"]
        return {**fields, "note": NAME, **({"grant": "refresh_token"} if conn_id == "workflow_user" else {})}

    def connect(self) -> None:
        """Create the connections and a Variable by the REST API, as the page does, and try them."""
        emulator, api = self.stage.emulator, self.airflow.api
        passwords = dict.fromkeys(CONNECTIONS, emulator.client_secret)
        passwords["workflow_wrong"] = self.marks.new("wrong secret")
        for conn_id, password in passwords.items():
            body = {
                "connection_id": conn_id,
                "conn_type": "workflow",
                "description": NAME,
                "host": emulator.base_url,
                "login": emulator.client_id,
                "password": password,
                "extra": json.dumps(self.extra(conn_id)),
            }
            self.outputs[f"POST {conn_id}"] = json.dumps(api.request("POST", "connections", json=body))
            self.outputs[f"test {conn_id}"] = json.dumps(api.request("POST", "connections/test", json=body))
        part = self.marks.add("the secret part of an address", Marks().new("address").rpartition(">")[2])
        body = {"key": "sealed_secret_url", "value": f"https://hooks.example.com/{part}", "description": NAME}
        self.outputs["POST variable"] = json.dumps(api.request("POST", "variables", json=body))

    def log_in(self) -> None:
        """Let a user log in by browser, and note what this has made secret."""
        address, output = log_in("workflow_user", self.airflow.env)
        self.outputs |= {"the address to log in at": address, "login": output}
        (state,) = parse_qs(urlsplit(address).query)["state"]
        self.marks.add("state", state)

    def type_commands(self) -> None:
        """Run commands one after the other in one process, which logs at DEBUG."""
        process = subprocess.run(
            [sys.executable, "-c", ONE_AFTER_THE_OTHER],
            input=json.dumps(COMMANDS),
            env=self.airflow.env,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert process.stdout.count("== ") == len(COMMANDS), process.stderr
        self.outputs["commands"] = process.stdout + process.stderr

    def do_everything(self) -> None:
        """Start runs of messages in every way, with right and wrong secrets, and with a user's tokens."""
        stage, empty_inbox = self.stage, self.inbox("-waiting")
        watched_inbox, event_inbox, drained_inbox, plain = map(
            self.inbox, ("-noticed", "-carried", "-drained", "")
        )
        ids = {name: name.put({"n": 1}) for name in (watched_inbox, event_inbox, drained_inbox, plain)}
        failing = stage.start("listener_with_a_wrong_secret", plain)
        runs = [stage.start(dag_id, plain) for dag_id in ("listener", "sealed_inbox")]
        stage.start("listener", empty_inbox)
        self.log_in()
        of_user = stage.start("listener_of_a_user", empty_inbox)
        self.type_commands()
        of_user.reaches("deferred")
        stage.emulator.store.tokens.expire()
        runs.append(stage.start("poking_listener_of_a_user", plain))
        ids[plain] += plain.put({"n": 2})
        for run in runs:
            run.succeeds()
        failing.fails()
        for inbox in (watched_inbox, drained_inbox, plain):
            stage.wait_until_succeeded(inbox, ids[inbox])
        stage.until(lambda: self.airflow.api.asset_events(event_inbox.name), "a message in an asset event")


@contextmanager
def sealed(home: Path, marks: Marks) -> Iterator[Sealed]:
    """Do it all, and leave Airflow running, with tasks that wait."""
    folder = home / "dags"
    folder.mkdir()
    for name in ("listeners.py", "targets.py"):
        shutil.copy(HERE / "dags" / name, folder)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        redirect = f"http://127.0.0.1:{listener.getsockname()[1]}/workflow/callback"
    env = {"SEALED_INBOX": NAME, "AIRFLOW__CORE__TEST_CONNECTION": "Enabled"}
    with (
        EmulatorServer(client_secret=marks.new("client secret"), redirect_uris=(redirect,)) as emulator,
        LocalAirflow(home / "airflow", folder, env=env, parallelism=8, log_level="DEBUG") as airflow,
    ):
        sealed_stage = Sealed(Stage(airflow, emulator), marks)
        sealed_stage.connect()
        # Only now: watchers without a connection would wait longer and longer for it.
        shutil.copy(HERE / "sealed" / "sealed.py", folder)
        sealed_stage.do_everything()
        yield sealed_stage
