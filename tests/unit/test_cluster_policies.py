"""Airflow around the provider: cluster policies, and state that processes do not share."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

import airflow_provider_workflow
from airflow_provider_workflow import pytest_plugin
from tests.unit.sensors.tasks import Task
from tests.unit.workbench import Workbench


@pytest.mark.since(3, 3, "the task state store")
def test_messages_are_not_leased_if_the_retries_that_auto_needs_are_taken_away(bench: Workbench) -> None:
    bench.put("a")
    task = Task(bench, trigger_dag_id=None, deferrable=False)
    task.sensor.retries = 0

    with pytest.raises(ValueError, match=r"^retries must be 1 or more with acknowledge=\"auto\""):
        task.execute()
    assert bench.lease_sizes == []


PACKAGE = Path(airflow_provider_workflow.__file__).parent
ENDS_WITH_ITS_LOOP = "belongs to a running event loop, and ends with it"
PURE = "a cache of answers that never change"
FILLED_AT_IMPORT = "is filled when its module is imported, and never again"
KEPT = {
    "client.arguments._quoted": PURE,
    "client.masking.spellings": PURE,
    "client.tokens._digest": PURE,
    "client.event_stream._streams": ENDS_WITH_ITS_LOOP,
    "client.over_aiohttp._sessions": ENDS_WITH_ITS_LOOP,
    "client.over_aiohttp._timeout": PURE,
    "emulator.web.app.is_own_host": PURE,
    "emulator.web.control_routes.OPERATIONS": FILLED_AT_IMPORT,
    "dispatch.runs._rejections": PURE,
    "observers._imported": PURE,
    "airflow_internals.stats": PURE,
    "plugin.service._fetching": "is empty while nothing is fetched",
}
"""Module state that no test inherits, and why."""
COLLECTIONS = {
    *("LRUCache", "TLRUCache"),
    *("dict", "list", "set", "bytearray", "deque", "defaultdict", "Counter", "OrderedDict", "Queue"),
    *("WeakKeyDictionary", "WeakValueDictionary", "WeakSet", "ContextVar", "local", "cache", "lru_cache"),
}
LOCKS = {"Lock", "RLock", "Condition", "Event"}


def name_of(node: ast.AST) -> str:
    """The last part of the name of what is called, or of a decorator."""
    node = node.func if isinstance(node, ast.Call) else node
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def changes(value: ast.expr | None) -> bool:
    """Whether a value can hardly be anything but state: an empty collection, or an object made of nothing."""
    if isinstance(value, (ast.Dict, ast.List)):
        return not (value.keys if isinstance(value, ast.Dict) else value.elts)
    if not isinstance(value, ast.Call):
        return False
    name = name_of(value)
    made_of_nothing = name[:1].isupper() and not value.args and not value.keywords
    return name in COLLECTIONS or (made_of_nothing and name not in LOCKS)


def state_in(body: list[ast.stmt]) -> Iterator[str]:
    """Names of state in a module or a class."""
    for statement in body:
        if isinstance(statement, ast.Assign) and changes(statement.value):
            yield from (target.id for target in statement.targets if isinstance(target, ast.Name))
        elif isinstance(statement, ast.AnnAssign) and changes(statement.value):
            yield name_of(statement.target)
        elif isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
            if {name_of(each) for each in statement.decorator_list} & {"cache", "lru_cache"}:
                yield statement.name
        elif isinstance(statement, ast.ClassDef):
            yield from (f"{statement.name}.{each}" for each in state_in(statement.body))


def state_of(path: Path) -> set[str]:
    """Everything in a file that may be state of its module, as ``module.name``."""
    tree = ast.parse(path.read_text())
    module = ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__")
    rebound = {name for node in ast.walk(tree) if isinstance(node, ast.Global) for name in node.names}
    return {f"{module}.{name}" for name in (*state_in(tree.body), *rebound)}


def test_no_state_of_a_module_is_overlooked() -> None:
    found = set().union(*(state_of(path) for path in PACKAGE.rglob("*.py")))

    assert found == {*pytest_plugin.STATE, *KEPT}, "register it in pytest_plugin.STATE, or say why not here"


def test_every_state_that_is_registered_can_be_emptied() -> None:
    for path in pytest_plugin.STATE:
        import_module(f"airflow_provider_workflow.{path.rpartition('.')[0]}")

    pytest_plugin.reset()


@pytest.mark.slow
def test_neither_the_plugin_nor_the_reset_loads_airflow() -> None:
    code = (
        "import sys, airflow_provider_workflow.pytest_plugin\n"
        "from airflow_provider_workflow import pytest_plugin\n"
        "pytest_plugin.reset()\n"
        "assert 'airflow' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
