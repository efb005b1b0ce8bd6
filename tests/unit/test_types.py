"""The types and import paths for users."""

from __future__ import annotations

import ast
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
from airflow_provider_workflow.dispatch.payloads import storable
from airflow_provider_workflow.types import DeadLetter, DispatchResult, LeasedMessage, Message
from tests.unit.documents import DOCS, ROOT

PACKAGE = "airflow_provider_workflow"
TABLE = (DOCS / "api" / "index.md").read_text().partition("## Import paths")[2]
PATHS = {
    name: f"{PACKAGE}.{module}"
    for names, module in re.findall(r"^\| (`.+) \| `([\w.]+)` \|$", TABLE, re.MULTILINE)
    for name in re.findall(r"`(\w+)`", names)
}
FOR_USERS = [*(ROOT / "dags_examples").glob("*.py"), *(DOCS / "examples").rglob("*.py")]
BEYOND = {"NotFoundError"}
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
    imported = {
        (path.name, alias.name, node.module)
        for path in FOR_USERS
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(PACKAGE)
        for alias in node.names
        if alias.name not in BEYOND
    }

    assert [entry for entry in imported if PATHS.get(entry[1]) != entry[2]] == []


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


@pytest.mark.slow
def test_a_type_checker_finds_wrong_fields_and_accepts_the_example(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.py"
    wrong.write_text(WRONG)
    cache = ROOT / ".mypy_cache" / "examples"
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", f"--cache-dir={cache}"]
    done = subprocess.run([*command, EXAMPLE, wrong], cwd=ROOT, capture_output=True, text=True, check=False)

    assert done.stderr == ""
    errors = [line for line in done.stdout.splitlines() if " error: " in line]
    keys = [re.search(r'TypedDict "(.+)" has no key "(.+)"', error) for error in errors]
    assert [key and key.groups() for key in keys] == [
        ("Message[Order]", "body"),
        ("Order", "price"),
        ("Order", "total"),
        ("Order", "name"),
        ("DispatchResult", "failed"),
        ("DeadLetter", "payload"),
    ]


def test_the_example_works() -> None:
    example = runpy.run_path(str(EXAMPLE))
    message = storable(
        {**Delivery.of("inbox", LEASED).message, "payload": {"number": 2**70, "items": ["a", "b"]}}
    )

    assert example["label"](message) == f"{2**70}: a, b"
    report = example["dag"].get_task("report").python_callable
    assert report({"started": {"count": 2, "ids": ["a", "b"]}}) == "2 orders"


def test_a_message_has_the_fields_of_its_type() -> None:
    message = Delivery.of("inbox", LEASED).message

    assert set(storable(message)) == Message.__required_keys__
    replaced: Any = storable({**message, "payload": 2**70})
    assert set(replaced) == Message.__required_keys__ | Message.__optional_keys__


def test_a_dead_letter_and_a_result_have_the_fields_of_their_types() -> None:
    letter = conf_of(
        Delivery.of("inbox", LEASED), "workflow_default", "handle", Reason.REJECTED, "gone", "run"
    )
    assert set(letter) == set(DeadLetter.__annotations__)
    assert {"inbox_id", *results.Counts().result} == set(DispatchResult.__annotations__)
