"""``doctor`` on connections, inboxes and the DAGs that listen: the diagnosis, the fix, and no secret."""

from __future__ import annotations

import json
import logging
import sys
import time
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from airflow import settings
from airflow.models.errors import ParseImportError
from airflow.sdk import DAG, AssetWatcher
from airflow.utils.session import create_session
from sqlalchemy import create_engine

from airflow_provider_workflow import airflow_internals
from airflow_provider_workflow.assets import create_asset
from airflow_provider_workflow.cli import doctor as module
from airflow_provider_workflow.cli.doctor import Examination
from airflow_provider_workflow.cli.main import main
from airflow_provider_workflow.emulator.server import EmulatorServer
from airflow_provider_workflow.findings import Finding
from airflow_provider_workflow.hooks.user_tokens import VariableStore
from airflow_provider_workflow.operators.inbox import (
    WorkflowAcknowledgeOperator,
    WorkflowInboxDispatchOperator,
)
from airflow_provider_workflow.sensors.inbox import WorkflowInboxSensor
from airflow_provider_workflow.triggers.notice import WorkflowInboxNoticeTrigger
from tests.unit.cli.database import Database, listening, listening_mapped
from tests.unit.client.conftest import scripted_server
from tests.unit.client.isolation import isolated
from tests.unit.client.scripted_server import ScriptedServer, answer
from tests.unit.client.stores import logged_in
from tests.unit.hooks.conftest import Connect, Variables, connect, variables

__all__ = ["connect", "isolated", "scripted_server", "variables"]


@dataclass(frozen=True)
class Diagnosis:
    """The findings that a script gets, in their order, and all that was printed for whomever."""

    exit_code: int
    findings: list[dict[str, Any]]
    shown: str

    def __getitem__(self, check: str) -> dict[str, Any]:
        (finding,) = (finding for finding in self.findings if finding["check"] == check)
        return finding

    def of(self, status: str) -> list[str]:
        """The checks that ended so."""
        return [finding["check"] for finding in self.findings if finding["status"] == status]


@dataclass
class Doctor:
    """Examines connections to the emulator, whose clock shows the machine's time."""

    emulator: EmulatorServer
    connect: Connect
    capsys: pytest.CaptureFixture[str]

    def examine(self, extra: dict[str, Any] | None = None, *arguments: str, **changes: Any) -> Diagnosis:
        """Examine a connection to the emulator with some of its fields changed, printed both ways."""
        # Loading the CA certificates takes longer than most tests.
        self.connect({"verify": False, **(extra or {})}, **changes)
        self.capsys.readouterr()
        assert main(["doctor", *arguments]) in (0, 1)
        table = "".join(self.capsys.readouterr())
        code = main(["doctor", "--output", "json", *arguments])
        out, err = self.capsys.readouterr()
        return Diagnosis(code, json.loads(out), table + out + err)


@pytest.fixture
def doctor(
    emulator: EmulatorServer,
    connect: Connect,
    capsys: pytest.CaptureFixture[str],
    database: Database,
    variables: Variables,
) -> Doctor:
    """Examines connections to the emulator with an inbox, in an Airflow without DAGs and triggerers."""
    emulator.store.clock.advance(time.time() - emulator.store.clock.now())
    emulator.open_inbox("orders")
    return Doctor(emulator, connect, capsys)


USER = {"grant": "refresh_token"}


def test_a_good_connection_has_no_fault(doctor: Doctor, database: Database) -> None:
    database.add_triggerer()
    database.deploy(listening("listen", inbox="orders", trigger_dag_id="handle"))
    database.add_dag("handle")
    diagnosis = doctor.examine()
    assert diagnosis.exit_code == 0
    assert diagnosis.of("ok") == ["connection", "token", "inbox_api", "inbox orders", "triggerer", "dags"]
    assert len(diagnosis.findings) == 6
    assert diagnosis["token"]["detail"] == "the token was issued for external"
    assert diagnosis["inbox orders"]["detail"] == "active; 0 available, 0 leased, 0 quarantined"
    assert all(finding["fix"] is None for finding in diagnosis.findings)
    assert "\n0 failed, 0 warnings, 6 ok\n" in diagnosis.shown


def test_a_name_that_stdout_cannot_encode_is_escaped(doctor: Doctor, database: Database) -> None:
    sys.stdout.reconfigure(encoding="ascii")  # type: ignore[union-attr]
    database.deploy(listening("listen", inbox="größe", trigger_dag_id="handle"))
    assert r"gr\xf6\xdfe" in doctor.examine().shown


@pytest.mark.parametrize(
    ("field", "value", "check", "text"),
    [
        ("password", "wrong-secret", "token", "(invalid_client): Unknown client or wrong secret. -> correct"),
        ("password", "demo-secret ", "token", "-> the client secret begins or ends with a space: remove"),
        ("scope", "workflow", "token", "for workflow; trigger inboxes need external -> set Scope to ext"),
        ("scope", "unknown", "token", "(invalid_scope): scope is missing or not known. -> set Scope to ext"),
        ("host", "http://127.0.0.1:1", "inbox_api", "-> check Base URL and Inbox path, and the network"),
        ("host", "https://127.0.0.1:1", "inbox_api", "Inbox path (https unless the URL says http), and"),
        ("grant", "refresh_token", "user_tokens", "-> run: airflow-workflow login --conn-id workflow_"),
    ],
)
def test_a_wrong_field_has_its_fix(doctor: Doctor, field: str, value: str, check: str, text: str) -> None:
    changes = {field: value} if field in ("password", "host") else {"extra": {field: value}}
    diagnosis = doctor.examine(**changes)
    assert (diagnosis.exit_code, diagnosis.of("failed")) == (1, [check])
    assert text in "{detail} -> {fix}".format_map(diagnosis[check])


def test_a_scope_granted_in_part_and_a_misspelt_field(
    doctor: Doctor, scripted_server: ScriptedServer
) -> None:
    scripted_server.token = answer(200, {"access_token": "a", "scope": "external"})
    scripted_server.answers = [answer(200, {"results": [], "next": None})]
    urls = {"oauth_url": f"{scripted_server.url}/token", "scope": "external promotions:write", "tiemout": 3}
    diagnosis = doctor.examine(urls, host=scripted_server.url)
    assert diagnosis.exit_code == 0
    assert diagnosis["token"]["status"] == "warning"
    assert diagnosis["token"]["detail"].endswith("issued for external, not for promotions:write")
    assert diagnosis["inbox_api"]["detail"].endswith("; there are no inboxes yet")
    assert (
        "connection: the field 'tiemout' of Extra has no effect; did you mean 'timeout'?" in diagnosis.shown
    )


def test_a_token_without_a_scope_has_the_requested_one(
    doctor: Doctor, scripted_server: ScriptedServer
) -> None:
    scripted_server.token = answer(200, {"access_token": "a"})
    scripted_server.answers = [answer(200, {"results": [], "next": None})]
    finding = doctor.examine({"oauth_url": f"{scripted_server.url}/token"}, host=scripted_server.url)["token"]
    assert (finding["status"], finding["detail"]) == ("ok", "the token was issued for external")


@pytest.mark.parametrize(
    ("host", "text"),
    [
        ("http://no-such-host.invalid", "secrets are sent unencrypted"),
        ("https://no-such-host.invalid", "certificates are not verified"),
    ],
)
def test_a_service_without_tls_or_verification_is_warned_of(host: str, text: str, doctor: Doctor) -> None:
    diagnosis = doctor.examine(host=host)
    assert diagnosis["tls"]["status"] == "warning"
    assert text in diagnosis["tls"]["detail"]


def test_a_check_that_breaks_is_a_finding_that_quotes_nothing(
    doctor: Doctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    def _first(_: Examination) -> Any:
        yield Finding("first", "ok", "fine")
        raise RuntimeError("with a secret in it")

    monkeypatch.setattr(module, "OF_CONNECTION", (_first, _first))
    monkeypatch.setattr(module, "OF_AIRFLOW", (_first,))
    monkeypatch.setattr(module, "NEEDED", (_first,))
    diagnosis = doctor.examine()
    assert diagnosis.exit_code == 1
    assert [finding["status"] for finding in diagnosis.findings] == ["failed", "failed", "ok", "ok"]
    assert diagnosis.findings[0]["detail"] == "the check itself failed: RuntimeError"


def test_each_connection_that_a_deployed_listener_uses_is_examined(
    doctor: Doctor, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = {**doctor.emulator.connection(), "password": "wrong-secret"}
    wrong["extra"] = {**wrong["extra"], "verify": False}
    monkeypatch.setenv("AIRFLOW_CONN_WORKFLOW_BAD", json.dumps(wrong))
    database.add_dag("handle")
    for dag_id, conn_id in (("good", "workflow_default"), ("bad", "workflow_bad")):
        arguments = {"inbox": "orders", "workflow_conn_id": conn_id, "trigger_dag_id": "handle"}
        database.deploy(listening(dag_id, **arguments))

    diagnosis = doctor.examine()

    assert (diagnosis.exit_code, diagnosis.of("failed")) == (1, ["token of workflow_bad"])
    assert {"token of workflow_default", "inbox orders of workflow_default"} <= set(diagnosis.of("ok"))
    assert findings_of(diagnosis, "listeners") == [], "each inbox has the listener of its own connection"
    alone = doctor.examine(None, "--inbox", "orders")
    assert (alone.exit_code, "token" in alone.of("ok")) == (0, True)


@pytest.mark.parametrize("arguments", [(), ("--no-airflow",)])
def test_a_database_out_of_reach_is_skipped_which_is_no_success_unless_it_is_left_out(
    doctor: Doctor, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    def fail(*_: Any) -> None:
        raise OSError("postgresql://airflow:a-secret@db/airflow is out of reach")

    monkeypatch.setattr(airflow_internals, "database_session", fail)

    diagnosis = doctor.examine(None, *arguments)

    assert diagnosis.exit_code == (0 if arguments else 1)
    assert diagnosis.of("skipped") == ([] if arguments else ["database"])
    assert (diagnosis.of("failed"), "inbox orders" in diagnosis.of("ok")) == ([], True)
    assert "a-secret" not in diagnosis.shown
    assert findings_of(diagnosis, "listeners") == [], "it is unknown whether a DAG listens"
    if not arguments:
        assert diagnosis["database"]["detail"] == "it cannot be read from here: OSError"
        assert "(--no-airflow)" in diagnosis["database"]["fix"]
        assert "\n0 failed, 0 warnings, 1 skipped, 4 ok\n" in diagnosis.shown


@pytest.mark.usefixtures("database")
@pytest.mark.parametrize("path", ["a-secret/airflow.db", "empty.db"], ids=["out of reach", "not migrated"])
def test_a_database_that_sqlalchemy_cannot_query_is_skipped_too(
    doctor: Doctor, tmp_path: Path, path: str
) -> None:
    settings.Session.remove()
    settings.Session.configure(bind=create_engine(f"sqlite:///{tmp_path}/{path}"))

    diagnosis = doctor.examine()

    assert (diagnosis.of("skipped"), diagnosis.of("failed")) == (["database"], [])
    assert diagnosis["database"]["detail"] == "it cannot be read from here: OperationalError"
    assert "a-secret" not in diagnosis.shown


def test_deployed_dags_that_cannot_be_read_are_a_failure(
    doctor: Doctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "inbox_uses", lambda session: [][1])

    diagnosis = doctor.examine()

    assert (diagnosis.exit_code, diagnosis.of("failed")) == (1, ["dags"])
    assert diagnosis["dags"]["detail"] == "the deployed DAGs cannot be read: IndexError"


@pytest.mark.parametrize(
    ("argument", "value", "text"),
    [
        ("retries", 0, "it has no retries: each transient error fails its run -> remove retries=0"),
        ("pool", "nope", "its pool 'nope' does not exist: it never starts -> create it (airflow pools set"),
        ("depends_on_past", True, "depends_on_past is set: after a failed run it never starts again"),
        ("do_xcom_push", False, "do_xcom_push=False: its result is lost, and it repeats alarms"),
    ],
)
@pytest.mark.parametrize("is_mapped", [False, True])
def test_an_argument_of_airflow_that_keeps_a_listener_from_its_work_is_warned_of(
    doctor: Doctor, database: Database, is_mapped: bool, argument: str, value: Any, text: str
) -> None:
    arguments = {"task_id": "start", "trigger_dag_id": "handle"}
    with DAG("listen", schedule=None, default_args={argument: value}) as dag:
        if is_mapped:
            WorkflowInboxDispatchOperator.partial(**arguments).expand(inbox=["orders"])
        else:
            WorkflowInboxDispatchOperator(inbox="orders", **arguments)
    database.deploy(dag)
    database.add_dag("handle")

    diagnosis = doctor.examine()

    assert (diagnosis.exit_code, diagnosis["task listen.start"]["status"]) == (0, "warning")
    assert text in "{detail} -> {fix}".format_map(diagnosis["task listen.start"])


@pytest.mark.specification("2.2 initialization_failure")
def test_an_inbox_that_failed_to_initialize(doctor: Doctor) -> None:
    inbox_id = doctor.emulator.open_inbox("orders")
    doctor.emulator.store.inboxes.force(inbox_id, "initialization_failure", "subscribe_failed")
    diagnosis = doctor.examine()
    assert diagnosis.of("failed") == ["inbox orders"]
    assert diagnosis["inbox orders"]["detail"] == "failed to initialize (subscribe_failed)"
    fix = "delete it (airflow-workflow inbox delete orders), and create it again"
    assert diagnosis["inbox orders"]["fix"] == fix


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
def test_a_paused_inbox_has_the_fix_of_its_reason_with_a_command_that_can_be_pasted(
    doctor: Doctor, reason: str | None, status: str, fix: str
) -> None:
    inbox_id = doctor.emulator.open_inbox("my {orders}")
    doctor.emulator.store.inboxes.force(inbox_id, "paused", reason)
    finding = doctor.examine(None, "--inbox", "my {orders}")["inbox my {orders}"]
    assert finding["status"] == status
    assert finding["detail"].startswith(f"paused ({reason or 'no reason given'}): new events are dropped")
    assert fix in finding["fix"].lower()
    assert "airflow-workflow inbox resume 'my {orders}'" in finding["fix"]


@pytest.mark.parametrize(
    ("status", "fix"),
    [("initializing", "run doctor again"), ("deleting", "nothing, if that is intended"), ("dreaming", None)],
)
def test_an_inbox_on_its_way_or_in_a_state_of_a_newer_service_is_a_warning(
    doctor: Doctor, status: str, fix: str | None
) -> None:
    doctor.emulator.store.inboxes.find("orders").status = status
    diagnosis = doctor.examine()
    assert (diagnosis.exit_code, diagnosis["inbox orders"]["status"]) == (0, "warning")
    assert diagnosis["inbox orders"]["detail"].startswith(status)
    assert fix is None or diagnosis["inbox orders"]["fix"].startswith(fix)


@pytest.mark.parametrize("seconds_ago", [None, 7300])
def test_no_living_triggerer_is_a_fault_only_where_triggers_wait(
    doctor: Doctor, database: Database, monkeypatch: pytest.MonkeyPatch, seconds_ago: float | None
) -> None:
    if seconds_ago is not None:
        database.add_triggerer(seconds_ago=seconds_ago)
    heartbeat = "none is running" if seconds_ago is None else "the last heartbeat is 2 h old"
    for count, status in ((0, "warning"), (1, "failed")):
        monkeypatch.setattr(module.airflow_internals, "count_triggers", lambda _, number=count: number)
        finding = doctor.examine()["triggerer"]
        assert finding["status"] == status
        text = f"no triggerer is alive: {heartbeat}; waiting triggers of this provider: {count}"
        assert finding["detail"] == text
        assert finding["fix"].startswith("start one: airflow triggerer")


def test_all_that_is_wrong_with_a_connection_is_named_at_once(doctor: Doctor) -> None:
    diagnosis = doctor.examine({"oauth_url": "", "timeout": "soon", "grant": "any"}, password="")
    assert diagnosis.of("failed") == ["connection"]
    assert all(
        name in diagnosis["connection"]["detail"] for name in ("password", "oauth_url", "timeout", "grant")
    )
    nowhere = doctor.examine(None, "--conn-id", "nowhere")
    assert nowhere.of("failed") == ["connection"]
    assert "nowhere" in nowhere["connection"]["detail"]


def test_people_get_lines_and_scripts_get_lists_of_findings(
    doctor: Doctor, capsys: pytest.CaptureFixture[str]
) -> None:
    diagnosis = doctor.examine(password="wrong-secret")
    assert diagnosis.exit_code == 1
    assert diagnosis["token"]["detail"] in diagnosis.shown
    assert diagnosis["token"]["fix"] in diagnosis.shown
    for finding in diagnosis.findings:
        assert list(finding) == ["check", "status", "detail", "fix"]
        assert finding["status"] in ("ok", "warning", "failed")

    doctor.connect({"verify": False})
    assert main(["doctor", "-o", "yaml"]) == 0
    assert "- check: connection\n  status: ok\n" in capsys.readouterr().out


def test_messages_in_quarantine_are_counted(doctor: Doctor) -> None:
    doctor.emulator.store.configure(quarantine_after=1)
    doctor.emulator.put("orders", *range(4))
    inbox_id = doctor.emulator.open_inbox("orders")
    doctor.emulator.store.messages.lease(inbox_id, 300, 100)
    doctor.emulator.store.messages.expire(inbox_id)
    doctor.emulator.put("orders", "a live one")
    diagnosis = doctor.examine()
    assert diagnosis.exit_code == 0
    assert diagnosis["inbox orders"]["status"] == "warning"
    assert diagnosis["inbox orders"]["detail"] == "active; 1 available, 0 leased, 4 quarantined"
    assert "inbox messages orders --status quarantined" in diagnosis["inbox orders"]["fix"]


def test_messages_with_a_high_delivery_count_are_counted(doctor: Doctor) -> None:
    doctor.emulator.put("orders", "n", attributes={"lease_count": 3})
    doctor.emulator.put("orders", "m", attributes={"lease_count": 2})
    diagnosis = doctor.examine()
    assert diagnosis["inbox orders"]["status"] == "warning"
    assert diagnosis["inbox orders"]["detail"].endswith("; 1 has a delivery count of 3 or more")
    assert diagnosis["inbox orders"]["fix"].endswith("or the log of the listener has the error")


@pytest.mark.parametrize(
    ("arguments", "is_said"),
    [
        ({"trigger_dag_id": "handle"}, True),
        ({"trigger_dag_id": "handle", "dead_letter_dag_id": "dead"}, False),
        ({"trigger_dag_id": "handle", "dead_letter_dag_id": "{{ var.value.dead }}"}, False),
        ({"acknowledge": "manual"}, False),
    ],
)
def test_a_listener_without_dead_letters_is_named_before_its_messages_are_quarantined(
    doctor: Doctor, database: Database, arguments: dict[str, Any], is_said: bool
) -> None:
    doctor.emulator.put("orders", "n", attributes={"lease_count": 3})
    database.deploy(listening("listen", inbox="orders", **arguments))
    database.deploy(listening("elsewhere", inbox="others", trigger_dag_id="handle"))
    fix = doctor.examine()["inbox orders"]["fix"]
    assert ("; set dead_letter_dag_id of listen, or they are quarantined" in fix) is is_said
    assert "elsewhere" not in fix


@pytest.mark.parametrize(
    ("expanded", "is_said"), [([{}], True), (None, False), ([{"dead_letter_dag_id": "dead"}], False)]
)
def test_a_mapped_listener_may_get_its_dead_letter_dag_from_its_expansion(
    doctor: Doctor, database: Database, expanded: list[dict[str, Any]] | None, is_said: bool
) -> None:
    doctor.emulator.put("orders", "n", attributes={"lease_count": 3})
    database.deploy(listening_mapped("listen", expanded, inbox="orders", trigger_dag_id="handle"))
    fix = doctor.examine()["inbox orders"]["fix"]
    assert ("set dead_letter_dag_id of listen" in fix) is is_said


def test_an_inbox_that_is_not_there(doctor: Doctor) -> None:
    diagnosis = doctor.examine(None, "--inbox", "oders")
    assert diagnosis.of("failed") == ["inbox oders"]
    assert diagnosis["inbox oders"]["detail"] == "it does not exist; did you mean 'orders'?"
    assert "airflow-workflow inbox ensure oders" in diagnosis["inbox oders"]["fix"]


def test_an_inbox_is_found_by_its_name_and_by_its_id_in_upper_case(doctor: Doctor) -> None:
    inbox_id = doctor.emulator.open_inbox("Invoices")
    for inbox in ("Invoices", inbox_id.upper()):
        diagnosis = doctor.examine(None, "--inbox", inbox)
        assert diagnosis["inbox Invoices"]["status"] == "ok"


def test_an_account_of_many_inboxes_is_examined_in_part(
    doctor: Doctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_EXAMINED_INBOXES", 2)
    for name in ("a", "b", "c"):
        inbox = doctor.emulator.open_inbox(name)
    doctor.emulator.store.inboxes.force(inbox, "paused", "abandoned")
    diagnosis = doctor.examine()
    assert diagnosis.of("failed") == ["inbox c"]
    assert diagnosis["inboxes"]["status"] == "warning"
    assert diagnosis["inboxes"]["detail"] == "messages of 2 more were not counted"
    assert sum(finding["check"].startswith("inbox ") for finding in diagnosis.findings) == 3


def test_an_inbox_of_many_messages_is_counted_in_part_and_says_so(
    doctor: Doctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_EXAMINED_PAGES", 2)
    doctor.emulator.store.configure(page_size=2)
    doctor.emulator.put("orders", *range(5))
    finding = doctor.examine()["inbox orders"]
    assert finding["detail"] == "active; 4 available, 0 leased, 0 quarantined, among the first 4"


def test_a_listing_that_fails_does_not_end_the_diagnosis(doctor: Doctor) -> None:
    doctor.emulator.fault("status", operation="list_messages", status=500, times=None)
    diagnosis = doctor.examine()
    assert diagnosis.of("failed") == ["inbox orders"]
    assert diagnosis["triggerer"]["status"] == "warning"


@pytest.mark.parametrize("life", [36000, -60])
def test_no_token_of_a_user_is_printed_or_logged(
    life: int, doctor: Doctor, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    VariableStore(doctor.connect(USER).settings).write(logged_in(doctor.emulator, life))

    diagnosis = doctor.examine(USER)

    tokens = doctor.emulator.store.tokens
    assert "inbox_api" in diagnosis.of("ok")
    output = diagnosis.shown + caplog.text
    assert [token for token in (*tokens.issued, *tokens.refresh_tokens) if token in output] == []


def findings_of(diagnosis: Diagnosis, prefix: str) -> list[str]:
    return [finding["check"] for finding in diagnosis.findings if finding["check"].split()[0] == prefix]


def test_living_triggerers_are_counted(doctor: Doctor, database: Database) -> None:
    database.add_triggerer(seconds_ago=3600)
    database.add_triggerer(seconds_ago=0, state="success")
    database.add_triggerer()
    finding = doctor.examine()["triggerer"]
    assert (finding["status"], finding["detail"]) == ("ok", "1 alive")


def test_a_dag_file_that_cannot_be_imported_is_named(doctor: Doctor, database: Database) -> None:
    with create_session() as session:
        session.add(ParseImportError(filename="dags/broken.py", bundle_name="tests", stacktrace="a secret"))
    diagnosis = doctor.examine()
    assert diagnosis["dag files"]["status"] == "warning"
    assert diagnosis["dag files"]["detail"] == "cannot be imported: dags/broken.py"
    assert "airflow dags list-import-errors" in diagnosis["dag files"]["fix"]
    assert "a secret" not in diagnosis.shown


def test_the_newest_version_of_a_dag_counts(doctor: Doctor, database: Database) -> None:
    database.deploy(listening("listen", inbox="orders", trigger_dag_id="before"))
    database.add_dag("after")
    database.deploy(listening("listen", inbox="orders", trigger_dag_id="after"))
    assert doctor.examine()["dags"]["detail"].endswith("listener listen, target after")


def test_compressed_serialized_dags_are_read(doctor: Doctor, database: Database) -> None:
    database.add_dag("handle")
    database.deploy(listening("listen", inbox="orders", trigger_dag_id="handle"))
    database.compress_dags()
    assert doctor.examine()["dags"]["detail"].endswith("listener listen, target handle")


@pytest.mark.parametrize(
    ("role", "dag_id", "columns", "status", "detail", "fix"),
    [
        ("listener", "listen", {"is_paused": True}, "warning", "paused: it starts no", "dags unpause listen"),
        ("target", "handle", {"is_paused": True}, "warning", "paused: its runs", "dags unpause handle"),
        ("target", "handle", {"has_import_errors": True}, "failed", "import errors", "list-import-errors"),
        ("target", "handle", None, "failed", "no such DAG", "deploy it, or correct trigger_dag_id of listen"),
        ("dead-letter DAG", "dead", None, "failed", "no such DAG", "correct dead_letter_dag_id of listen"),
    ],
)
def test_a_dag_that_cannot_run_has_its_fix(
    doctor: Doctor,
    database: Database,
    role: str,
    dag_id: str,
    columns: dict[str, Any] | None,
    status: str,
    detail: str,
    fix: str,
) -> None:
    database.deploy(listening("listen", inbox="orders", trigger_dag_id="handle", dead_letter_dag_id="dead"))
    for other in {"handle", "dead"} - ({dag_id} if columns is None else set()):
        database.add_dag(other)
    if columns is not None:
        database.change(dag_id, **columns)

    diagnosis = doctor.examine()[f"{role} {dag_id}"]

    assert (diagnosis["status"], detail in diagnosis["detail"], fix in diagnosis["fix"]) == (
        status,
        True,
        True,
    )


def test_an_inbox_that_does_not_exist_fails_with_the_name_that_was_meant(
    doctor: Doctor, database: Database
) -> None:
    database.add_dag("handle")
    database.deploy(listening("listen", inbox="order", trigger_dag_id="handle"))
    diagnosis = doctor.examine()
    assert diagnosis.of("failed") == ["listener listen"]
    assert diagnosis["listener listen"]["detail"] == (
        "it listens to the inbox 'order', which does not exist; did you mean 'orders'?"
    )
    assert "airflow-workflow inbox ensure order" in diagnosis["listener listen"]["fix"]
    assert diagnosis["listeners of orders"]["status"] == "warning"


def test_a_listener_of_a_connection_known_at_run_time_or_of_an_id_in_upper_case_is_sound(
    doctor: Doctor, database: Database
) -> None:
    database.add_triggerer()
    database.add_dag("handle")
    inbox_id = doctor.emulator.open_inbox("orders").upper()
    database.deploy(listening("upper", inbox=inbox_id, trigger_dag_id="handle"))
    template = "{{ var.value.c }}"
    database.deploy(listening("any", inbox="elsewhere", workflow_conn_id=template, trigger_dag_id="handle"))
    diagnosis = doctor.examine()
    assert (diagnosis.of("failed"), diagnosis.of("warning")) == ([], [])


def test_two_listeners_of_one_inbox_are_warned_of(doctor: Doctor, database: Database) -> None:
    database.add_dag("handle")
    database.deploy(listening("first", inbox="orders", trigger_dag_id="handle"))
    database.deploy(listening("second", inbox=doctor.emulator.open_inbox("orders"), trigger_dag_id="handle"))
    diagnosis = doctor.examine()
    assert diagnosis["listeners of orders"]["status"] == "warning"
    assert diagnosis["listeners of orders"]["detail"].startswith("first and second: ")


def test_a_dag_of_another_connection_or_inbox_is_none_of_these(doctor: Doctor, database: Database) -> None:
    conn_id = "workflow_defualt"
    database.deploy(listening("other_conn", inbox="orders", workflow_conn_id=conn_id, trigger_dag_id="x"))
    database.deploy(listening("other_inbox", inbox="invoices", trigger_dag_id="y"))
    database.deploy(listening("gone", inbox="orders", trigger_dag_id="z"), is_stale=True)
    diagnosis = doctor.examine(None, "--inbox", "orders")
    assert (findings_of(diagnosis, "listener"), findings_of(diagnosis, "target")) == (
        ["listener other_conn"],
        [],
    )
    assert f"{conn_id}', which does not exist; did you mean 'workflow_default'?" in diagnosis.shown
    assert diagnosis["listeners of orders"]["detail"] == "no DAG of this Airflow listens to it"
    assert "@inbox_dag" in diagnosis["listeners of orders"]["fix"]
    doctor.emulator.open_inbox("invoices")
    assert findings_of(doctor.examine(), "target") == ["target y"]


def test_subclasses_mapped_tasks_and_templates_are_found(doctor: Doctor, database: Database) -> None:
    class Ours(WorkflowInboxSensor):
        pass

    with DAG("many", schedule=None, start_date=datetime(2025, 1, 1)) as dag:
        Ours(task_id="own", inbox="{{ var.value.inbox }}", trigger_dag_id="{{ var.value.dag }}")
        WorkflowInboxDispatchOperator.partial(task_id="each", trigger_dag_id={"handle": "`true`"}).expand(
            inbox=["a", "b"]
        )
        WorkflowAcknowledgeOperator(task_id="end", lease={"lease_id": "x"})
    database.deploy(dag)
    diagnosis = doctor.examine()
    assert diagnosis["dags"]["detail"].endswith("listener many")
    assert findings_of(diagnosis, "target") == ["target handle"]
    assert findings_of(diagnosis, "listeners") == [], "it may be the listener of any inbox"


@pytest.mark.parametrize(
    ("expansion", "conn_ids"),
    [
        ({"expanded": [{}]}, ["workflow_default"]),
        ({"expanded": None}, ["workflow_default", "other"]),
        ({"expanded": [{}], "default_args": {"workflow_conn_id": "other"}}, ["other"]),
    ],
    ids=["by the default connection", "by one that an XCom gives", "by that of default_args"],
)
def test_a_mapped_task_may_listen_to_an_inbox_of_each_connection_that_its_expansion_may_give(
    doctor: Doctor,
    database: Database,
    monkeypatch: pytest.MonkeyPatch,
    expansion: dict[str, Any],
    conn_ids: list[str],
) -> None:
    connection = doctor.emulator.connection()
    connection["extra"]["verify"] = False
    monkeypatch.setenv("AIRFLOW_CONN_OTHER", json.dumps(connection))
    database.add_dag("handle")
    database.deploy(listening_mapped("listen", **expansion, inbox="orders", trigger_dag_id="handle"))

    for conn_id in ("workflow_default", "other"):
        diagnosis = doctor.examine(None, "--conn-id", conn_id, "--inbox", "orders")
        warned = [] if conn_id in conn_ids else ["listeners of orders"]
        assert findings_of(diagnosis, "listeners") == warned


def test_a_dag_that_is_scheduled_on_a_watched_asset_is_found(doctor: Doctor, database: Database) -> None:
    trigger = WorkflowInboxNoticeTrigger(inbox="orders")
    asset = create_asset(inbox="orders", watchers=[AssetWatcher(name="orders", trigger=trigger)])
    database.deploy(DAG("noticed", schedule=(asset & create_asset(inbox="else"))))
    database.deploy(listening("listen", inbox="orders", trigger_dag_id="noticed"))
    diagnosis = doctor.examine()
    assert diagnosis["dags"]["detail"].endswith("listener listen, target noticed, listener noticed")
    assert findings_of(diagnosis, "listeners") == [], "a watcher that only tells of messages leases none"


STORE = "AIRFLOW__WORKFLOW__PAYLOAD_OBJECTSTORAGE_PATH"


@pytest.mark.parametrize(
    ("executor", "statuses"), [("LocalExecutor", ["ok"]), ("CeleryExecutor", ["warning", "ok"])]
)
def test_the_store_of_payloads_is_written_and_read_and_is_on_no_disk_of_one_of_several_machines(
    doctor: Doctor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, executor: str, statuses: list[str]
) -> None:
    monkeypatch.setenv(STORE, f"file://{tmp_path}/payloads")
    monkeypatch.setenv("AIRFLOW__CORE__EXECUTOR", executor)
    findings = [finding for finding in doctor.examine().findings if finding["check"] == "payload store"]

    assert [finding["status"] for finding in findings] == statuses
    assert findings[-1]["detail"] == (
        f"payloads of 65536 bytes or more are written to file://{tmp_path}/payloads"
    )
    assert [path.name for path in (tmp_path / "payloads").iterdir()] == ["check.json"]


@pytest.mark.parametrize("path", ["file:///dev/null/payloads", "s3://nowhere/", "unknown://x/"])
def test_a_store_of_payloads_that_cannot_be_used_is_a_failure(
    doctor: Doctor, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.setenv(STORE, path)
    diagnosis = doctor.examine()

    assert diagnosis["payload store"]["status"] == "failed"
    assert diagnosis["payload store"]["detail"].startswith(f"The payload store {path} cannot be written: ")
    assert diagnosis.exit_code == 1
