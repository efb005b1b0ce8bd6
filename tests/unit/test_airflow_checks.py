"""
The checks that Airflow's own repository makes of its providers, as far as they apply to one outside of it.

Where this provider differs, the exception stands here with its reason, and docs/decisions/airflow.md has the
reasons of design. An exception that is needed no more fails too.

Other tests make the rest of these checks: ``test_provider_info.py`` (the schemas of the provider's metadata,
its names, the connection form, the options), ``test_parse_weight.py`` (what a DAG file loads),
``test_docs.py`` (the reference), and ruff (``AIR3``, ``G`` and ``LOG``). What only Apache's repository has is
left out: the license header of each file, guides in reStructuredText, logos, and its lists of providers.
"""

from __future__ import annotations

import ast
import inspect
import pkgutil
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG, BaseHook, BaseNotifier, BaseOperator, BaseOperatorLink, task
from airflow.triggers.base import BaseTrigger

import airflow_provider_workflow
from airflow_provider_workflow.airflow_internals import airflow_release
from airflow_provider_workflow.get_provider_info import get_provider_info
from tests.system.test_examples import NOT_RUN, RUN
from tests.unit.documents import DOCS, PAGES, ROOT

PACKAGE = "airflow_provider_workflow"
SOURCES = {
    path.relative_to(ROOT / PACKAGE).as_posix(): ast.parse(path.read_text())
    for path in (ROOT / PACKAGE).rglob("*.py")
}
INFO = get_provider_info()
BY_MODULE = ("hooks", "operators", "sensors", "triggers")
"""What the provider's metadata names by module, and links by class."""
FOR_USERS = re.compile(r"Workflow\w+(Operator|Sensor|Trigger)$")


def classes() -> Iterator[type]:
    """All classes of the package that Airflow makes something of."""
    for module in pkgutil.walk_packages(airflow_provider_workflow.__path__, f"{PACKAGE}."):
        if module.name.rpartition(".")[2] in ("__main__", "pytest_plugin"):
            continue
        for member in vars(pkgutil.resolve_name(module.name)).values():
            bases = (BaseHook, BaseNotifier, BaseOperator, BaseOperatorLink, BaseTrigger)
            if isinstance(member, type) and issubclass(member, bases) and member.__module__ == module.name:
                yield member


# The provider's metadata


def test_each_integration_is_declared_once_and_leads_to_a_page() -> None:
    entries = [(kind, entry["integration-name"]) for kind in BY_MODULE for entry in INFO[kind]]
    names = [integration["integration-name"] for integration in INFO["integrations"]]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

    assert len(entries) == len(set(entries))
    assert len(names) == len(set(names))
    assert {name for _, name in entries} == set(names)
    for integration in INFO["integrations"]:
        base, _, page = integration["external-doc-url"].rpartition("/")
        assert f"{base}/" == project["urls"]["Documentation"]
        assert f"docs/{page.removesuffix('.html')}.md" in PAGES


IN_NO_LIST = {
    "operators.base.OwnDefaults": "a base class",
    "operators.base.WorkflowOperator": "a base class",
    "operators.base.DispatchingOperator": "a base class",
    "decorators.workflow_inbox.WorkflowInboxDecoratedOperator": "made by the task decorator, which is named",
}


@pytest.mark.since(3, 3, "what some modules import")
def test_airflow_is_told_of_every_hook_operator_sensor_trigger_and_link() -> None:
    modules = {module for kind in BY_MODULE for entry in INFO[kind] for module in entry["python-modules"]}
    named = {*modules, *INFO["extra-links"]}
    found = {f"{made.__module__}.{made.__qualname__}": made for made in classes()}
    unnamed = {path for path, made in found.items() if not {path, made.__module__} & named}

    assert {path.removeprefix(f"{PACKAGE}.") for path in unnamed} == set(IN_NO_LIST)
    assert modules - {made.__module__ for made in found.values()} == set()


# Examples and documentation


IN_NO_EXAMPLE = {
    "WorkflowReleaseOperator": "takes what WorkflowAcknowledgeOperator takes; docs/sensor.md has both",
    "WorkflowDeleteInboxOperator": "deletes messages for good, and an example may be unpaused by mistake",
    "WorkflowUnenrollOperator": "needs the enrollment of a user, which no example can make",
    "WorkflowInboxTrigger": "made by the sensor when it is deferred",
}


def for_users() -> list[type]:
    return [made for made in classes() if FOR_USERS.match(made.__name__)]


@pytest.mark.since(3, 3, "what some modules import")
def test_each_operator_sensor_and_trigger_is_in_an_example() -> None:
    examples = "".join(path.read_text() for path in (ROOT / "dags_examples").glob("*.py"))
    names = {made.__name__ for made in for_users()} - {"WorkflowInboxDecoratedOperator"}
    assert {name for name in names if f"{name}(" not in examples} == set(IN_NO_EXAMPLE)
    assert "@task.workflow_inbox(" in examples


@pytest.mark.since(3, 3, "what some modules import")
def test_each_operator_sensor_and_trigger_has_a_guide_beside_the_reference() -> None:
    guides = "".join(text for page, text in PAGES.items() if not page.startswith("docs/api/"))
    names = {made.__name__ for made in for_users()} - {"WorkflowInboxDecoratedOperator"}
    assert {name for name in names if f"`{name}" not in guides} == {"WorkflowInboxTrigger"}
    assert "`@task.workflow_inbox" in guides


def test_each_example_is_a_system_test() -> None:
    assert {*RUN, *NOT_RUN} == {path.name for path in (ROOT / "dags_examples").glob("*.py")}
    assert set(NOT_RUN) & set(RUN) == set()


def calls_of_dags(path: Path) -> Iterator[ast.Call]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("DAG", "dag", "inbox_dag"):
            yield node


@pytest.mark.parametrize(
    "folder", [ROOT / "dags_examples", DOCS / "examples"], ids=lambda folder: folder.name
)
def test_each_dag_of_an_example_has_the_tag_of_examples(folder: Path) -> None:
    calls = {
        (path.name, call.lineno): next((word.value for word in call.keywords if word.arg == "tags"), None)
        for path in folder.rglob("*.py")
        for call in calls_of_dags(path)
    }
    assert len(calls) > 5
    assert {
        place for place, tags in calls.items() if tags is None or "example" not in ast.literal_eval(tags)
    } == set()


# Constructors


def test_whether_to_defer_is_by_default_what_airflow_is_configured_to_do() -> None:
    defaults = {}
    for path, tree in SOURCES.items():
        for function in [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]:
            arguments = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
            values = [*function.args.defaults, *function.args.kw_defaults]
            for argument, value in zip(reversed(arguments), reversed(values), strict=False):
                if function.name == "__init__" and argument.arg == "deferrable":
                    defaults[path] = ast.unparse(value) if value else None
    assert defaults == {
        "sensors/inbox.py": "conf.getboolean('operators', 'default_deferrable', fallback=False)"
    }


ASSIGNED_OTHERWISE = {
    (
        "LeaseOperator",
        "message_ids",
    ): "not given and None differ: None is what a task returned nothing with",
}


def own_template_fields(node: ast.ClassDef) -> list[str]:
    """The fields that a class adds to those of its bases."""
    for statement in node.body:
        if isinstance(statement, ast.AnnAssign) and ast.unparse(statement.target) == "template_fields":
            assert isinstance(statement.value, ast.Tuple)
            return [value.value for value in statement.value.elts if isinstance(value, ast.Constant)]
    return []


def assigned_unchanged(node: ast.ClassDef) -> set[str]:
    """
    What the constructor sets, always, to the parameter of the same name.

    It may be checked by ``check_string`` or ``check_output``, which return it, and leave templates alone.
    """
    (init,) = [part for part in node.body if isinstance(part, ast.FunctionDef) and part.name == "__init__"]
    names = set()
    for statement in init.body:
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Attribute):
            name, value = statement.targets[0].attr, ast.unparse(statement.value)
            if re.fullmatch(rf"{name}|check_(string|output)\('{name}', {name}(, \w+)?\)", value):
                names.add(name)
    return names


def test_the_constructor_sets_each_template_field_to_its_argument() -> None:
    nodes = [node for tree in SOURCES.values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    fields = {node.name: own_template_fields(node) for node in nodes if own_template_fields(node)}
    assert len(fields) > 8
    assert {
        (node.name, name)
        for node in nodes
        if node.name in fields
        for name in set(fields[node.name]) - assigned_unchanged(node)
    } == set(ASSIGNED_OTHERWISE)


OPERATORS = [
    member
    for kind in ("operators", "sensors")
    for module in INFO[kind][0]["python-modules"]
    for name, member in vars(pkgutil.resolve_name(module)).items()
    if FOR_USERS.match(name) and member.__module__ == module
]


@pytest.mark.parametrize("operator", OPERATORS, ids=lambda operator: operator.__name__)
def test_a_template_and_the_output_of_another_task_get_through_the_constructor(operator: Any) -> None:
    @task
    def before() -> None: ...

    fields = set(operator.template_fields)
    if airflow_release() < (3, 4):
        fields -= {"trace_context"}
    with DAG("dag", schedule=None):
        output = before()
        for field in fields:
            others = dict.fromkeys(
                required_arguments(operator) | fields & {"trigger_dag_id"}, "{{ params.other }}"
            )
            for kind, value in (("template", "{{ params.value }}"), ("output", output)):
                made = operator(task_id=f"{kind}_{field}", **others | {field: value})
                assert getattr(made, field) is value
            assert made.upstream_task_ids == {"before"}


def required_arguments(operator: Any) -> set[str]:
    """Each of these is templated, or the test above fails."""
    return {
        name
        for name, parameter in inspect.signature(operator.__init__).parameters.items()
        if parameter.kind is parameter.KEYWORD_ONLY and parameter.default is parameter.empty
    }


@pytest.mark.parametrize("operator", OPERATORS, ids=lambda operator: operator.__name__)
def test_the_ids_of_connections_are_templated_and_renderers_are_of_template_fields(operator: Any) -> None:
    arguments = {name for base in operator.__mro__ for name in inspect.signature(base.__init__).parameters}
    ids = {name for name in arguments if name.endswith("conn_id")}

    assert ids <= set(operator.template_fields)
    assert set(operator.template_fields_renderers) <= set(operator.template_fields)


# Modules


STRINGS_ONLY = {
    "arguments.py": "type checkers alone read it",
    "types.py": "a TypedDict with NotRequired must have annotations that are no strings",
}


def test_annotations_are_not_evaluated() -> None:
    def is_postponed(tree: ast.Module) -> bool:
        imports = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
        return any(node.module == "__future__" for node in imports)

    def is_code(tree: ast.Module) -> bool:
        return not all(isinstance(node, ast.Expr) for node in tree.body)

    lacking = {path for path, tree in SOURCES.items() if is_code(tree) and not is_postponed(tree)}
    assert {path for path in lacking if not path.endswith("__init__.py")} == set(STRINGS_ONLY)


def test_each_folder_with_modules_is_a_package() -> None:
    folders = {path.parent for path in (ROOT / PACKAGE).rglob("*.py")}
    assert [folder for folder in folders if not (folder / "__init__.py").exists()] == []


RAISED = {
    "dispatch/receiving.py": "the task state store lost what it was given: the try fails, and is repeated",
    "operators/dead_letters.py": "the target rejects the replay: the try fails, and is repeated for days",
    "operators/manage_inbox.py": "the inbox is not active in time: the try fails, and a retry waits on",
}


def test_airflows_general_exception_is_raised_only_for_a_try_that_a_retry_may_cure() -> None:
    raising = [
        path
        for path, tree in SOURCES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Raise) and ast.unparse(node).startswith("raise AirflowException(")
    ]
    assert sorted(raising) == sorted(RAISED)


OF_CORE = {
    "airflow_internals.py": "used by commands and the API server too",
    "cli/doctor.py": "a command; it reads options of the core's components",
    "plugin/airflow_plugin.py": "loaded by the API server",
}


def test_tasks_and_triggers_read_the_configuration_by_the_task_sdk() -> None:
    importing = {
        path
        for path, tree in SOURCES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        and node.module in ("airflow.configuration", "airflow.sdk.configuration")
    }
    assert importing == set(OF_CORE)
