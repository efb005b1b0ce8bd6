"""A DAG file that is parsed loads nothing that only a running task or trigger needs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.benchmarks.parse import DAG_FILE, OURS, RECIPES, WORKFLOW
from tests.e2e.examples import EXAMPLES
from tests.unit.loading import loaded

FOLDER = Path(__file__).parents[2] / "dags_examples"
EXAMPLES_HERE = sorted(FOLDER / name for name, example in EXAMPLES.items() if example.runs_here)
CHOOSING = {"inbox_dead_letters.py", "inbox_events.py", "inbox_routing.py"}
"""Those with JMESPath expressions."""
HEAVY = {"requests", "aiohttp", "tenacity", "jmespath"}
SHELVES = {"decorators", "operators", "sensors", "triggers", "queues", "client"}
"""Packages that hold modules, and nothing themselves."""
RARE = {"dispatch.routing"}
DECORATED = {"decorators.arguments", "decorators.listeners", "decorators.message", "decorators.placeholder"}
"""What ``inbox_dag`` loads when it makes a DAG."""
ARGUMENTS = {
    "operators.base",
    "operators.named_inbox",
    "clock",
    "dispatch",
    "dispatch.targets",
    "triggers.base",
    "client.arguments",
    "client.errors",
    "options",
    "links",
    "rendering",
    "retry_defaults",
    "airflow_internals",
}
"""What the modules that a DAG file names share."""


def of_ours(modules: set[str]) -> set[str]:
    """Our modules among these, by their names within the package."""
    return {name.removeprefix(f"{OURS}.") for name in modules if name.startswith(f"{OURS}.")}


def test_all_that_a_dag_file_can_name_loads_what_checks_arguments_and_no_more() -> None:
    more = loaded(f"import {', '.join(WORKFLOW.names)}", DAG_FILE)

    assert of_ours(more) == {*WORKFLOW.modules, *SHELVES, *ARGUMENTS}
    assert more & HEAVY == set()


@pytest.mark.since(3, 3, "what a trigger of Airflow loads by itself")
@pytest.mark.parametrize("recipe", RECIPES)
def test_a_recipe_loads_fewer_than_25_modules_beyond_airflow(recipe: str) -> None:
    more = loaded(f"import {', '.join(RECIPES[recipe].names)}", DAG_FILE)

    assert set(RECIPES[recipe].names) <= more
    assert len(more) < 25


@pytest.mark.parametrize("path", EXAMPLES_HERE, ids=lambda path: path.name)
def test_a_dag_that_is_built_loads_no_more_than_what_it_names(path: Path) -> None:
    more = loaded(f"import runpy; runpy.run_path({str(path)!r})", DAG_FILE)
    chooses = path.name in CHOOSING

    assert of_ours(more) - RARE <= {*WORKFLOW.modules, *SHELVES, *ARGUMENTS, *DECORATED}
    assert ("dispatch.routing" in of_ours(more)) is chooses
    assert more & HEAVY == ({"jmespath"} if chooses else set())


def test_the_examples_import_and_warn_of_nothing() -> None:
    assert EXAMPLES_HERE
    loaded(
        "import runpy, warnings\n"
        "warnings.filterwarnings('error', module='airflow_provider_workflow')\n"
        f"for path in {[str(path) for path in EXAMPLES_HERE]!r}: runpy.run_path(path)",
        DAG_FILE,
    )
