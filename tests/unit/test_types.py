"""The types and import paths for users."""

from __future__ import annotations

import ast
import logging
import re
import runpy
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_workflow.dispatch import results
from airflow_provider_workflow.dispatch.blame import Reason
from airflow_provider_workflow.dispatch.dead_letters import conf_of
from airflow_provider_workflow.dispatch.delivery import Delivery
from airflow_provider_workflow.dispatch.payload_store import PayloadStore
from airflow_provider_workflow.dispatch.payloads import storable
from airflow_provider_workflow.types import DeadLetter, DispatchResult, LeasedMessage, Message
from tests.unit.documents import DOCS, ROOT
from tests.unit.workbench import Workbench

PACKAGE = "airflow_provider_workflow"
TABLE = (DOCS / "api" / "index.md").read_text().partition("## Import paths")[2]
PATHS = {
    name: f"{PACKAGE}.{module}"
    for names, module in re.findall(r"^\| (`.+) \| `([\w.]+)` \|$", TABLE, re.MULTILINE)
    for name in re.findall(r"`(\w+)`", names)
}
FOR_USERS = [*(ROOT / "dags_examples").glob("*.py"), *(DOCS / "examples").rglob("*.py")]
BEYOND = {"InboxPausedError", "NotFoundError"}
"""Names that the table leaves to another page."""


def test_a_name_is_imported_from_where_it_is_defined() -> None:
    defined_in = {name: getattr(import_module(module), name).__module__ for name, module in PATHS.items()}

    assert [name for name in PATHS if defined_in[name] not in (PATHS[name], f"{PATHS[name]}.{name}")] == []


def test_the_table_has_every_operator_sensor_and_trigger_that_airflow_is_told_of() -> None:
    info = import_module(f"{PACKAGE}.get_provider_info").get_provider_info()
    entries = [entry for kind in ("operators", "sensors", "triggers", "hooks") for entry in info[kind]]
    modules = [import_module(name) for entry in entries for name in entry["python-modules"]]
    classes = {
        name: module.__name__
        for module in modules
        for name, value in vars(module).items()
        if isinstance(value, type) and value.__module__ == module.__name__ and name.startswith("Workflow")
    }
    # The sensor makes this trigger.
    classes.pop("WorkflowInboxTrigger")

    assert classes.items() <= PATHS.items()


def test_examples_import_by_the_table() -> None:
    imported_types = {
        (path.name, alias.name, node.module)
        for path in FOR_USERS
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(PACKAGE)
        for alias in node.names
        if alias.name not in BEYOND
    }

    assert [entry for entry in imported_types if PATHS.get(entry[1]) != entry[2]] == []


EXAMPLE = DOCS / "examples" / "typed_orders.py"
WRONG = """
from typing import TypedDict

from airflow_provider_workflow.dispatch.payloads import payload_of
from airflow_provider_workflow.types import DeadLetter, DispatchResult, Lease, Message


class Order(TypedDict):
    number: int


def read(message: Message[Order], lease: Lease[Order], result: DispatchResult, letter: DeadLetter) -> None:
    message["body"]
    message["payload"]["price"]
    payload_of(message)["total"]
    lease["messages"][0]["payload"]["name"]
    result["failed"]
    letter["payload"]


def read_any(message: Message, lease: Lease) -> list[object]:
    return [message["payload"]["price"], payload_of(message)["price"], lease["messages"][0]["payload"].price]
"""
LEASED: LeasedMessage = {
    "id": "a",
    "created_at": "2025-01-01T00:00:00Z",
    "status": "leased",
    "payload": {"number": 1},
    "message_attributes": {"lease_count": 1},
}


def errors_in(*files: Path) -> list[str]:
    """What mypy finds, with the settings of a strict user."""
    cache = ROOT / ".mypy_cache" / "strict"
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", f"--cache-dir={cache}"]
    process = subprocess.run([*command, *files], cwd=ROOT, capture_output=True, text=True, check=False)

    assert process.stderr == ""
    return [line for line in process.stdout.splitlines() if " error: " in line]


@pytest.mark.slow
def test_a_type_checker_finds_wrong_fields_and_accepts_the_example(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.py"
    wrong.write_text(WRONG)
    errors = errors_in(EXAMPLE, wrong)

    keys = [re.search(r'TypedDict "(.+)" has no key "(.+)"', error) for error in errors]
    assert [key and key.groups() for key in keys] == [
        ("Message[Order]", "body"),
        ("Order", "price"),
        ("Order", "total"),
        ("Order", "name"),
        ("DispatchResult", "failed"),
        ("DeadLetter", "payload"),
    ]


CALLS = """
from datetime import timedelta
from typing import Any, TypedDict

from airflow.sdk import task

from airflow_provider_workflow.decorators import inbox_dag
from airflow_provider_workflow.decorators.workflow_inbox import workflow_inbox_task
from airflow_provider_workflow.operators.inbox import WorkflowInboxDispatchOperator
from airflow_provider_workflow.sensors.inbox import WorkflowInboxSensor
from airflow_provider_workflow.types import Message


class Order(TypedDict):
    number: int


SHARED: dict[str, Any] = {"max_unfinished_runs": 50}
OF_TASK = {"retries": 3, "timeout": 60}


@inbox_dag("a", listener="sensor", deferrable=True, params={"a": 2}, listener_args=OF_TASK, **SHARED)
@task
def handle(message: Message[Order]) -> None:
    print(message["payload"]["number"])


handle.test()
inbox_dag("a", max_unfinished_run=50)  # wrong
inbox_dag("a", match=1)  # wrong
inbox_dag("a", on_paused="skip")  # wrong
inbox_dag("a", listener="poll")  # wrong
inbox_dag("a", dagrun_timeout=60)  # wrong

WorkflowInboxSensor(task_id="a", inbox="a", on_paused="wait", timeout=timedelta(hours=1))
WorkflowInboxSensor(task_id="a", inbox="a", on_paused="log")  # wrong
WorkflowInboxSensor(task_id="a", inbox="a", acknowledge="none")  # wrong
WorkflowInboxSensor(task_id="a", inbox="a", poke_interval=5)  # wrong
WorkflowInboxSensor(task_id="a", inbox="a", poll_interval=2, **SHARED)
WorkflowInboxSensor.partial(task_id="a", retries=3).expand(inbox=["a", "b"])
WorkflowInboxDispatchOperator(task_id="a", inbox="a", trigger_dag_id={"b": "id"}, on_paused="log", pool="a")
WorkflowInboxDispatchOperator(task_id="a", inbox="a", trigger_dag_id="b", on_paused="wait")  # wrong
WorkflowInboxDispatchOperator(task_id="a", inbox="a", trigger_dag_id="b", retrys=3)  # wrong
WorkflowInboxDispatchOperator(task_id="a", inbox="a", trigger_dag_id=None)  # wrong


@task.workflow_inbox(inbox="a", batch_size=10)
def store(messages: Any = None) -> None: ...


@workflow_inbox_task(inbox="a", batch_size=10, retries=3)
def store_by_region(messages: list[Message[Order]], region: str) -> None: ...


store()
store_by_region(region="eu")
store_by_region(region=1)  # wrong
workflow_inbox_task(inbox="a", batch_size="10")  # wrong
workflow_inbox_task(batch_size=10)  # wrong
"""


@pytest.mark.slow
def test_a_type_checker_finds_wrong_arguments_and_accepts_the_others(tmp_path: Path) -> None:
    calls = tmp_path / "calls.py"
    calls.write_text(CALLS)

    wrong = [n for n, line in enumerate(CALLS.splitlines(), start=1) if line.endswith("# wrong")]
    assert sorted({int(error.split(":")[1]) for error in errors_in(calls)}) == wrong


def test_the_example_works() -> None:
    example = runpy.run_path(str(EXAMPLE))
    message = storable(
        {**Delivery.of("inbox", LEASED).message, "payload": {"number": 2**70, "items": ["a", "b"]}}
    )

    assert example["label"](message) == f"{2**70}: a, b"
    report = example["dag"].get_task("report").python_callable
    assert report({"started": {"count": 2, "ids": ["a", "b"]}}) == "2 orders"


def test_the_example_of_typed_batches_works(bench: Workbench, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    bench.service.open_inbox("measurements")
    bench.service.put("measurements", {"value": 20}, ids=["a"])
    store = runpy.run_path(str(DOCS / "examples" / "typed_batches.py"))["dag"].get_task("store")

    assert store.execute(bench.context)["processed"]["ids"] == ["a"]
    assert "eu: 20" in caplog.text


def test_a_message_has_the_fields_of_its_type(tmp_path: Path) -> None:
    message = Delivery.of("inbox", LEASED).message

    assert set(storable(message)) == Message.__required_keys__
    replaced: Any = storable({**message, "payload": 2**70})
    reference = PayloadStore(f"file://{tmp_path}", 0).with_reference("inbox", message)
    assert {*replaced, *reference} == Message.__required_keys__ | Message.__optional_keys__


def test_a_dead_letter_and_a_result_have_the_fields_of_their_types() -> None:
    letter = conf_of(
        Delivery.of("inbox", LEASED), "workflow_default", "handle", Reason.REJECTED, "gone", "run"
    )
    assert set(letter) == set(DeadLetter.__annotations__)
    assert {"inbox_id", *results.Counts().result} == set(DispatchResult.__annotations__)
