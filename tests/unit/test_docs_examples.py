"""The examples of ``docs/``: snippets, alerting, deployment."""

from __future__ import annotations

import json
import logging
import re
import runpy
import shlex
import shutil
import subprocess
from collections import Counter
from datetime import UTC, datetime, timedelta
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from airflow.cli.cli_parser import get_parser
from airflow.models import DagBag
from airflow.providers.smtp.notifications.smtp import SmtpNotifier
from airflow.sdk import Connection
from airflow.sdk.definitions.deadline import DeadlineReference
from airflow.secrets.local_filesystem import LocalFilesystemBackend

from airflow_provider_workflow.airflow_internals import airflow_release
from airflow_provider_workflow.client.errors import InboxPausedError
from airflow_provider_workflow.config import OPTIONS
from airflow_provider_workflow.dispatch.payloads import storable
from airflow_provider_workflow.emulator.server import EmulatorServer
from airflow_provider_workflow.hooks.workflow import WorkflowHook
from airflow_provider_workflow.observers import metrics
from airflow_provider_workflow.operators.inbox import (
    WorkflowAcknowledgeOperator,
    WorkflowInboxDispatchOperator,
)
from airflow_provider_workflow.operators.manage_inbox import (
    WorkflowDeleteInboxOperator,
    WorkflowEnsureInboxOperator,
)
from airflow_provider_workflow.operators.workflows import (
    WorkflowGuessOperator,
    WorkflowTemplatesOperator,
    WorkflowUnenrollOperator,
)
from tests.e2e.examples import EXAMPLES
from tests.unit.decorators.test_inbox_dag import asset_of
from tests.unit.documents import DOCS, PAGES, ROOT, blocks
from tests.unit.workbench import INBOX, Workbench

EXAMPLES_OF_DOCS = DOCS / "examples"
DAG_FILES = [
    *(ROOT / "dags_examples").glob("*.py"),
    *EXAMPLES_OF_DOCS.glob("*.py"),
    *(EXAMPLES_OF_DOCS / "testing" / "dags").glob("*.py"),
    EXAMPLES_OF_DOCS / "alerting" / "deadline.py",
]
NOT_RETRIED = {
    ("invoices", "add_up"): "its messages are redelivered",
    ("sum_invoices", "lease_all"): "a further try would lease only what the first has not leased",
    ("work_then_acknowledge", "work"): "its messages are redelivered",
    ("watch_parcels", "check_oldest"): "it is repeated every five minutes",
    ("dispatch_orders", "report"): "it works on no message",
    ("maintain_tickets", "maintain"): "it works on no message",
    ("set_up_leads", "report"): "it works on no message",
}
"""Tasks of examples whose retries are Airflow's default, 0, and why that is right."""


def run(name: str) -> dict[str, Any]:
    return runpy.run_path(str(EXAMPLES_OF_DOCS / name))


def dags_in(path: Path) -> dict[str, Any]:
    """The DAGs of a file, those of listeners included."""
    bag = DagBag(str(path))
    assert bag.import_errors == {}
    return dict(bag.dags)


@pytest.mark.skipif(airflow_release() < (3, 3), reason="some examples are for Airflow 3.3")
def test_tasks_of_examples_are_retried_as_nothing_else_repeats_a_failed_run() -> None:
    dags = [dag for path in DAG_FILES for dag in dags_in(path).values()]
    retries = {(dag.dag_id, task.task_id): task.retries for dag in dags for task in dag.tasks}

    assert len(retries) > 40
    assert {name for name, number in retries.items() if number == 0} == NOT_RETRIED.keys()


def test_own_calls_of_the_hook(connected_emulator: EmulatorServer) -> None:
    forget_inbox = run("own_calls.py")["forget_inbox"]
    connected_emulator.put("orders", 1, 2)

    assert forget_inbox("orders") == 2
    assert forget_inbox("orders") == 0


def test_an_observer_of_ones_own_is_told_of_started_runs(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.syspath_prepend(DOCS / "examples")
    monkeypatch.setenv("AIRFLOW__WORKFLOW__OBSERVERS", "observer.observe, missing.observe")
    bench.put("a", "b")
    bench.dispatcher().drain()

    assert import_module("observer").started == {INBOX: 2}
    assert caplog.text.count("The observer missing.observe failed: ModuleNotFoundError") == 1
    assert bench.states == {}


@pytest.mark.parametrize("value", [20, 1e20])
def test_a_handler_reads_payloads_that_airflow_can_and_cannot_store(
    value: float, caplog: pytest.LogCaptureFixture
) -> None:
    dag = run("payload_of.py")["dag"]
    handle, show = dag.get_task("handle").python_callable, dag.get_task("show")
    message = storable({"id": "a", "payload": {"value": value}})
    dag_run = SimpleNamespace(conf={"inbox_id": "b", "message": message})
    caplog.set_level(logging.INFO)

    handle(dag_run=dag_run)
    assert f"Measured: {value}" in caplog.text
    show.render_template_fields({"dag_run": dag_run})
    assert show.env == {"VALUE": str(value)}


def test_a_large_payload_is_read_in_the_task(
    bench: Workbench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__WORKFLOW__PAYLOAD_OBJECTSTORAGE_PATH", f"file://{tmp_path}")
    dag = run("large_payloads.py")["archive_order"]
    bench.put("a", payload={"document": "x" * 100_000})
    dispatch = WorkflowInboxDispatchOperator(task_id="t", inbox=INBOX, trigger_dag_id="handle")
    dispatch.execute({"ti": bench.ti})  # type: ignore[typeddict-item]
    [conf] = bench.supervisor.runs.values()
    archive = dag.get_task("archive").prepare_for_execution()
    archive.render_template_fields({"dag_run": SimpleNamespace(conf=conf), "params": {}})

    assert len(json.dumps(conf)) < 1000
    assert archive.python_callable(*archive.op_args) == 100_000


def test_a_payload_that_does_not_fit_is_a_dead_letter_with_its_first_delivery(
    bench: Workbench, caplog: pytest.LogCaptureFixture
) -> None:
    dags = dags_in(EXAMPLES_OF_DOCS / "bad_payloads.py")
    bench.supervisor.dags |= dags.keys()
    bench.service.put("refunds", {"order_id": "1", "total": 5}, {"order_id": "2"})
    dags["pay_refund_listener"].get_task("start_runs").execute({"ti": bench.ti})
    runs = {dag_id: conf for (dag_id, _), conf in bench.supervisor.runs.items()}
    dags["report_bad_refund"].get_task("report").python_callable(
        dag_run=SimpleNamespace(conf=runs["report_bad_refund"])
    )

    assert runs["pay_refund"]["message"]["payload"] == {"order_id": "1", "total": 5}
    assert runs["report_bad_refund"]["reason"] == "invalid"
    assert "its payload does not fit the schema: $.total: missing" in caplog.text
    assert bench.hook.list_messages("refunds") == []


def test_one_file_listens_to_the_same_inbox_of_two_accounts() -> None:
    dags = dags_in(EXAMPLES_OF_DOCS / "two_accounts.py")
    tasks = [dag.get_task("start_runs") for dag_id, dag in dags.items() if dag_id.endswith("_listener")]

    assert {(task.workflow_conn_id, task.inbox, task.trigger_dag_id) for task in tasks} == {
        ("workflow_staging", "orders", "handle_order_staging"),
        ("workflow_production", "orders", "handle_order_production"),
    }
    assert len({asset_of(task.dag).uri for task in tasks}) == 2


def test_all_messages_that_wait_are_leased_and_acknowledged_after_the_work(bench: Workbench) -> None:
    dag = run("all_messages.py")["dag"]
    bench.service.put("invoices", *({"amount": 1} for _ in range(130)))
    leases = dag.get_task("lease_all").python_callable()
    acknowledge = dag.get_task("acknowledge")

    assert [len(lease["messages"]) for lease in leases] == [100, 30]
    assert dag.get_task("add_up").python_callable(leases) == 130
    assert acknowledge.upstream_task_ids == {"lease_all", "store"}
    for lease in leases:
        WorkflowAcknowledgeOperator(task_id="t", lease=lease).execute({"ti": bench.ti})  # type: ignore[typeddict-item]
    assert bench.hook.list_messages("invoices") == []
    assert dag.get_task("lease_all").python_callable() == []


def test_a_paused_inbox_costs_a_task_that_leases_all_no_lease(bench: Workbench) -> None:
    lease_all = run("all_messages.py")["dag"].get_task("lease_all").python_callable
    bench.service.put("invoices", *({"amount": 1} for _ in range(130)))
    paused = {"detail": "It is paused.", "inbox_attributes": {"status": "paused", "paused_reason": "user"}}
    bench.service.fault("status", operation="lease", status=409, json=paused, after=2, times=None)

    assert [len(lease["messages"]) for lease in lease_all()] == [100, 30]
    with pytest.raises(InboxPausedError):
        lease_all()


@pytest.mark.usefixtures("fake_clock")
def test_single_fields_of_a_result_are_passed_on(connected_emulator: EmulatorServer) -> None:
    dag = run("fields_of_results.py")["dag"]
    results = {
        task_id: dag.get_task(task_id).execute({"ti": SimpleNamespace(try_number=1)})
        for task_id in ("ensure", "guess")
    }
    arguments = dag.get_task("report").op_args

    assert all(argument.operator.multiple_outputs for argument in arguments)
    assert [results[argument.operator.task_id][argument.key] for argument in arguments[1:]] == [
        "active",
        results["guess"]["title"],
    ]
    assert WorkflowHook().get_inbox("leads")["id"] == results["ensure"]["id"]
    assert WorkflowHook().get_inbox("leads")["subscription"]["app_key"] == "CrmAPI@1.2.0"


@pytest.mark.parametrize(
    ("operator", "arguments"),
    [
        (WorkflowEnsureInboxOperator, {"name": "leads", "app_key": "CrmAPI", "action_key": "lead_created"}),
        (WorkflowDeleteInboxOperator, {"inbox": "leads"}),
        (WorkflowGuessOperator, {"description": "When an order arrives, add a row"}),
        (WorkflowTemplatesOperator, {"limit": 1}),
        (WorkflowUnenrollOperator, {"enrollment_id": "e-17"}),
        (WorkflowInboxDispatchOperator, {"inbox": INBOX, "trigger_dag_id": "handle"}),
    ],
)
@pytest.mark.usefixtures("fake_clock")
def test_the_page_names_the_fields_of_a_result(operator: Any, arguments: Any, bench: Workbench) -> None:
    (row,) = [
        line
        for line in PAGES["docs/operators.md"].splitlines()
        if line.startswith(f"| `{operator.__name__}(")
    ]
    bench.put("a")
    result = operator(task_id="t", **arguments).execute({"ti": bench.ti})
    fields = set(result[0] if isinstance(result, list) else result)

    assert set(re.findall(r"`(\w+)`", row.split(" | ")[2])) - {"count", "ids"} == fields


def test_the_day_of_a_run_without_a_logical_date() -> None:
    dag = run("day_of_a_message.py")["dag"]
    file_order = dag.get_task("file_order")
    conf = {"message": {"id": "a", "created_at": "2026-02-28T23:59:59Z", "payload": None}}
    dag_run = SimpleNamespace(conf=conf, run_after=datetime(2026, 3, 1, 1, tzinfo=UTC))

    file_order.render_template_fields({"dag_run": dag_run})
    assert file_order.env == {"DAY": "2026-03-01", "SENT": "2026-02-28T23:59:59Z"}
    assert dag.get_task("day").python_callable(dag_run=dag_run) == "2026-03-01"


def test_a_decorated_function_of_two_tasks() -> None:
    module = run("inbox_dag.py")
    dag = module["handle_order"]

    assert dag.get_task("ship").upstream_task_ids == {"charge"}
    assert module["charge"].function(dag.params["message"], params=dag.params) == 40


@pytest.mark.skipif(airflow_release() < (3, 3), reason="the trigger is for Airflow 3.3")
def test_the_trigger_of_common_messaging() -> None:
    (watcher,) = run("message_queue.py")["alerts"].watchers
    path, arguments = watcher.trigger.serialize()
    assert path.endswith(".WorkflowInboxEventTrigger")
    assert arguments["inbox"] == "alerts"


ALERTING = DOCS / "examples" / "alerting"
RULES = [
    rule
    for group in yaml.safe_load((ALERTING / "rules.yml").read_text())["groups"]
    for rule in group["rules"]
]
DASHBOARD = json.loads((ALERTING / "grafana-dashboard.json").read_text())
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
COUNTERS = [*(metrics.PREFIX + name for name in metrics.COUNTERS), metrics.RATE_LIMITED]
NAMES = {
    f"airflow_{name.replace('.', '_')}": name
    for name in (*COUNTERS, *(metrics.PREFIX + gauge for gauge in metrics.GAUGES))
}
"""What the StatsD exporter makes of the names."""


def metrics_in(expression: str) -> set[str]:
    return set(re.findall(r"\bairflow_\w+", expression))


def tags_of(name: str) -> set[str]:
    return {"conn_id", "family" if NAMES[name] == metrics.RATE_LIMITED else "inbox"}


def labels_in(expression: str) -> set[str]:
    """Labels that a query selects or groups by."""
    grouped = re.findall(r"\b(?:by|on) \(([^)]*)\)", expression)
    selected = re.findall(r"(\w+)=~?\"", expression)
    return {label.strip() for labels in grouped for label in labels.split(",")} | set(selected)


def queries(panel: dict[str, Any]) -> list[str]:
    return [target["expr"] for target in panel["targets"]]


def test_a_query_names_metrics_and_labels_that_exist() -> None:
    for expression in (rule["expr"] for rule in RULES), *(queries(panel) for panel in PANELS):
        for query in expression:
            names = metrics_in(query)

            assert names, query
            assert names <= set(NAMES), query
            assert labels_in(query) <= set.intersection(*(tags_of(name) for name in names)), query
            # The value of a counter is the number since the exporter started.
            rates = re.sub(r"\(\S+\s+unless \S+\s+offset [^)]*\)", "", query)
            bare = re.findall(r"\b(airflow_\w+)(?:\{[^}]*\})?(?!\w|\{|\[)", rates)
            assert [name for name in bare if NAMES[name] in COUNTERS] == [], query


def test_a_rule_says_what_is_wrong_and_there_is_one_for_each_metric_of_a_loss() -> None:
    assert len({other_rule["alert"] for other_rule in RULES}) == len(RULES) > 5
    for rule in RULES:
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert set(rule["annotations"]) == {"summary", "description"}
        assert f"`{rule['alert']}`" in PAGES["docs/alerting.md"]
    ruled = set().union(*(metrics_in(rule["expr"]) for rule in RULES))
    losses = ("quarantined", "dead_lettered", "rejected", "lease_expired", "oldest_message_age", "active")
    assert {"airflow_workflow_rate_limited", *(f"airflow_workflow_inbox_{name}" for name in losses)} <= ruled


def test_the_dashboard_shows_each_metric() -> None:
    names = set().union(*(metrics_in(query) for panel in PANELS for query in queries(panel)))

    assert names == set(NAMES)


def test_a_panel_has_a_description_and_asks_for_what_was_chosen() -> None:
    source = {"type": "prometheus", "uid": "${datasource}"}

    for panel in PANELS:
        title = panel["title"]
        assert panel["description"].endswith("."), title
        assert all(part["datasource"] == source for part in (panel, *panel["targets"])), title
        for query in queries(panel):
            assert 'conn_id=~"$conn_id"' in query, title
            assert 'inbox=~"$inbox"' in query or "rate_limited" in query, title


def test_panels_have_numbers_of_their_own_and_fill_the_width_without_an_overlap() -> None:
    panels = DASHBOARD["panels"]
    places = [panel["gridPos"] for panel in panels]
    cells = Counter(
        (x, y)
        for place in places
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    )

    assert len({panel["id"] for panel in panels}) == len(panels)
    assert [cell for cell, count in cells.items() if count > 1] == []
    assert max(place["x"] + place["w"] for place in places) == 24


async def test_a_late_run_has_a_deadline_and_its_callback_can_be_stored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mails: list[tuple[str, str]] = []

    async def send(self: Any, context: Any) -> None:
        mails.append((self.subject, " ".join(self.html_content.split())))

    monkeypatch.setattr(SmtpNotifier, "async_notify", send)
    dag = run("alerting/deadline.py")["handler"]
    (deadline,) = dag.deadline if isinstance(dag.deadline, list) else [dag.deadline]
    failed = dag.on_failure_callback
    notifier = SmtpNotifier(**deadline.callback.kwargs, context={"dag_run": {"dag_run_id": "late"}})

    await notifier
    failed.render_template_fields({"dag_run": SimpleNamespace(run_id="broken")})
    assert mails == [("Late: late", "See the run in Airflow.")]
    assert failed.subject == "Failed: broken"
    assert deadline.reference == DeadlineReference.DAGRUN_QUEUED_AT
    assert deadline.interval == timedelta(minutes=30)
    assert deadline.callback.path.endswith(".SmtpNotifier")


DEPLOYMENT = DOCS / "examples" / "deployment"
PROCESSES = ("api-server", "scheduler", "dag-processor", "triggerer")
UNIT = DEPLOYMENT / "airflow@.service"
VARIABLE = "AIRFLOW_CONN_WORKFLOW_DEFAULT"


def variables_of(name: str) -> dict[str, str]:
    pairs = (line.partition("=") for line in (DEPLOYMENT / name).read_text().splitlines())
    return {name: "".join(shlex.split(value)) for name, _, value in pairs}


def address_of(connection: Connection, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(WorkflowHook, "get_connection", lambda *_: connection)
    return WorkflowHook().settings.base_url


def test_each_file_stands_on_the_page() -> None:
    texts = [
        block for language in ("docker", "ini", "yaml") for block in blocks("docs/deployment.md", language)
    ]
    names = [path.name for path in DEPLOYMENT.iterdir() if path.read_text() not in texts]
    assert names == ["connections.json"]


def test_compose_gives_every_process_the_connection_and_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    services = yaml.safe_load((DEPLOYMENT / "docker-compose.override.yaml").read_text())["services"]
    processes = {f"airflow-{name.replace('api-server', 'apiserver')}" for name in PROCESSES}
    assert set(services) == {*processes, "airflow-worker", "airflow-init", "airflow-cli"}
    variables = {VARIABLE: VARIABLE, "AIRFLOW__CORE__FERNET_KEY": "AIRFLOW_FERNET_KEY"}
    expected = {name: f"${{{variable}:?is missing in the file .env}}" for name, variable in variables.items()}
    assert all(service["environment"] == expected for service in services.values())
    assert set(variables.values()) < set(variables_of("compose.env"))
    connection = Connection.from_json(variables_of("compose.env")[VARIABLE])
    assert address_of(connection, monkeypatch) == "https://api.example.com"


def test_helm_gives_the_connection_and_the_image_to_every_process_of_airflow() -> None:
    values = yaml.safe_load((DEPLOYMENT / "values.yaml").read_text())
    assert values["triggerer"] == values["apiServer"] == {"replicas": 2}
    assert set(values["config"]["workflow"]) <= set(OPTIONS)
    assert yaml.safe_load(values["extraEnvFrom"]) == [{"secretRef": {"name": "workflow-connection"}}]
    version = values["airflowVersion"]
    assert values["defaultAirflowTag"].startswith(f"{version}-")
    assert f"FROM apache/airflow:{version}-" in (DEPLOYMENT / "Dockerfile").read_text()


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd-analyze is not installed")
def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    # The program and the user of the page do not exist here.
    text = UNIT.read_text().replace("/opt/airflow/venv/bin/airflow", "/bin/true")
    (tmp_path / "airflow@.service").write_text(text.replace("User=airflow", "User=root"))
    process = subprocess.run(
        ["systemd-analyze", "verify", str(tmp_path / "airflow@triggerer.service")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (process.returncode, [line for line in process.stderr.splitlines() if str(tmp_path) in line]) == (
        0,
        [],
    )


@pytest.mark.parametrize("process", PROCESSES)
def test_airflow_has_the_command_of_each_unit(process: str) -> None:
    (command,) = re.findall(r"^ExecStart=\S+/airflow (.+)$", UNIT.read_text(), re.MULTILINE)
    assert get_parser().parse_args(shlex.split(command.replace("%i", process))).subcommand == process


def test_the_secrets_backend_of_the_units_has_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    kwargs = json.loads(variables_of("airflow.env")["AIRFLOW__SECRETS__BACKEND_KWARGS"])
    path = DEPLOYMENT / Path(kwargs["connections_file_path"]).name
    connection = LocalFilesystemBackend(connections_file_path=str(path)).get_connection("workflow_default")
    assert connection is not None
    assert address_of(connection, monkeypatch) == "https://api.example.com"


FILES = {path.name: path.read_text() for path in (ROOT / "dags_examples").glob("*.py")}


def test_every_example_is_run_by_a_test() -> None:
    assert set(FILES) == set(EXAMPLES), (
        "Each file of dags_examples/ needs an entry in EXAMPLES of tests/e2e/examples.py: what to put and to"
        " start, and what is to be seen then. tests/e2e/test_examples.py runs it."
    )


def test_every_example_has_a_test_for_users_to_copy() -> None:
    tests = DOCS / "examples" / "testing" / "example_dags"
    assert {path.name for path in tests.iterdir() if path.is_file()} == {f"test_{file}" for file in FILES}
