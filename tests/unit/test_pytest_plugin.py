"""The pytest plugin: what it gives to people who test their own DAGs, and the state that it empties."""

from __future__ import annotations

import ast
import logging
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

import airflow_provider_workflow
from airflow_provider_workflow import pytest_plugin
from airflow_provider_workflow.dispatch.quarantine import check_quarantine
from airflow_provider_workflow.emulator.server import EmulatorServer
from airflow_provider_workflow.hooks.workflow import WorkflowHook
from airflow_provider_workflow.pytest_plugin import workflow_emulator
from tests.unit.loading import modules_of

__all__ = ["workflow_emulator"]

pytest_plugins = ["pytester"]


def test_what_was_acknowledged_can_be_asserted(workflow_emulator: EmulatorServer) -> None:
    first, second = workflow_emulator.put("orders", 1, 2)
    lease_id = str(WorkflowHook().lease_messages("orders")["lease_id"])
    WorkflowHook().acknowledge_messages("orders", lease_id, [first])

    workflow_emulator.assert_acknowledged("orders", [first])
    missing = f"not acknowledged in 'orders': {{'{second}'}}"
    with pytest.raises(AssertionError, match=re.escape(missing)):
        workflow_emulator.assert_acknowledged("orders", [first, second])
    with pytest.raises(AssertionError, match=re.escape(f"acknowledged in 'orders' too: {{'{first}'}}")):
        workflow_emulator.assert_acknowledged("orders", [])


@pytest.mark.parametrize("test", ["first", "second"])
def test_each_test_gets_the_alarm_for_a_quarantined_message(
    test: str, workflow_emulator: EmulatorServer, caplog: pytest.LogCaptureFixture
) -> None:
    workflow_emulator.put("orders", 1, ids=["poison"])
    for _ in range(5):
        WorkflowHook().lease_messages("orders", lease_seconds=60)
        workflow_emulator.advance(61)

    check_quarantine(WorkflowHook(), WorkflowHook().get_inbox("orders")["id"])

    assert [record.levelno for record in caplog.records].count(logging.ERROR) == 1


PLUGIN = "airflow_provider_workflow.pytest_plugin"
ONE_MESSAGE = """
    import pytest

    @pytest.mark.parametrize("turn", [1, 2])
    def test_one_message(workflow_emulator, turn):
        workflow_emulator.put("orders", {"turn": turn})
        assert len(workflow_emulator.statuses("orders")) == 1
    """


@pytest.mark.parametrize(
    ("conftest", "options"), [("", ()), (f'pytest_plugins = ["{PLUGIN}"]', ("-p", PLUGIN))]
)
def test_it_may_be_named_and_each_test_has_a_service_of_its_own(
    pytester: pytest.Pytester, conftest: str, options: tuple[str, ...]
) -> None:
    pytester.makeconftest(conftest)
    pytester.makepyfile(ONE_MESSAGE)

    pytester.runpytest_subprocess(*options).assert_outcomes(passed=2)


PACKAGE = Path(airflow_provider_workflow.__file__).parent
ENDS_WITH_ITS_LOOP = "belongs to a running event loop, and ends with it"
PURE = "a cache of answers that never change"
FILLED_AT_IMPORT = "is filled when its module is imported, and never again"
CACHED_ANSWERS = {
    "client.arguments._quoted": PURE,
    "client.secrets._spellings": PURE,
    "client.settings._context_of": PURE,
    "client.event_stream._streams": ENDS_WITH_ITS_LOOP,
    "client.aiohttp_transport._sessions": ENDS_WITH_ITS_LOOP,
    "emulator.web.app.is_own_host": PURE,
    "emulator.web.control_routes.OPERATIONS": FILLED_AT_IMPORT,
    "dispatch.runs._rejections": PURE,
    "airflow_internals.stats": PURE,
    "source.RANDOM": "only chooses moments",
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
            if {name_of(decorator) for decorator in statement.decorator_list} & {
                "cache",
                "cached",
                "lru_cache",
            }:
                yield statement.name
        elif isinstance(statement, ast.ClassDef):
            yield from (f"{statement.name}.{name}" for name in state_in(statement.body))


def state_of(path: Path) -> set[str]:
    """Everything in a file that may be state of its module, as ``module.name``."""
    tree = ast.parse(path.read_text())
    module = ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__")
    rebound = {name for node in ast.walk(tree) if isinstance(node, ast.Global) for name in node.names}
    return {f"{module}.{name}" for name in (*state_in(tree.body), *rebound)}


def test_no_state_of_a_module_is_overlooked() -> None:
    names = set().union(*(state_of(path) for path in PACKAGE.rglob("*.py")))

    assert names == {*pytest_plugin.STATE, *CACHED_ANSWERS}, (
        "register it in pytest_plugin.STATE, or say why not here"
    )


def test_every_state_that_is_registered_can_be_emptied() -> None:
    for path in pytest_plugin.STATE:
        import_module(f"airflow_provider_workflow.{path.rpartition('.')[0]}")

    pytest_plugin.reset()


@pytest.mark.slow
def test_neither_the_plugin_nor_the_reset_loads_airflow() -> None:
    code = "from airflow_provider_workflow import pytest_plugin; pytest_plugin.reset()"
    assert "airflow" not in modules_of(code)
