"""What importing a part of the provider loads, above all a DAG file that is parsed."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.parse import DAG_FILE, OURS, WORKFLOW
from tests.e2e.examples import EXAMPLES
from tests.unit.loading import modules_of

pytestmark = pytest.mark.slow

FOLDER = Path(__file__).parents[2] / "dags_examples"
EXAMPLES_HERE = sorted(FOLDER / name for name, example in EXAMPLES.items() if example.runs_here)
HEAVY = {"requests", "aiohttp", "tenacity"}
ONLY_WHERE_IT_RUNS = {"cli", "database", "emulator", "plugin"}
"""Packages of which a DAG file loads nothing."""
WITH_AN_ASSET = f"{DAG_FILE}\nAsset('any', uri='any://place/thing')"
"""At the first asset of a file Airflow loads each provider's module for URIs; Amazon's loads requests."""
TRANSPORTS = {
    f"{OURS}.client.{name}"
    for name in ("aiohttp_transport", "async_client", "requests_transport", "sync_client")
}
"""Modules of ours that load requests or aiohttp, even if others have loaded these before."""
MAX_MODULES = 45
"""That all that a DAG file can name loads of ours, together; it only goes down."""


def of_ours(modules: set[str]) -> set[str]:
    """Our modules among these, by their names within the package."""
    return {name.removeprefix(f"{OURS}.") for name in modules if name.startswith(f"{OURS}.")}


def check_light(modules: set[str]) -> None:
    """Check that nothing was loaded that only a running task or trigger needs, or another process."""
    assert {name.partition(".")[0] for name in of_ours(modules)} & ONLY_WHERE_IT_RUNS == set()
    assert f"{OURS}.hooks.workflow" not in modules
    assert f"{OURS}.arguments" not in modules  # for type checkers
    assert modules & (HEAVY | TRANSPORTS) == set()


def test_all_that_a_dag_file_can_name_is_light() -> None:
    more = modules_of(f"import {', '.join(WORKFLOW)}", DAG_FILE)

    check_light(more)
    assert "jmespath" not in more
    assert len(of_ours(more)) <= MAX_MODULES


@pytest.mark.parametrize("path", EXAMPLES_HERE, ids=lambda path: path.name)
def test_a_dag_that_is_built_is_light_and_warns_of_nothing(path: Path) -> None:
    more = modules_of(
        "import runpy, warnings\n"
        "warnings.filterwarnings('error', module='airflow_provider_workflow')\n"
        f"runpy.run_path({str(path)!r})",
        WITH_AN_ASSET,
    )

    check_light(more)
    assert len(of_ours(more)) <= MAX_MODULES


NOT_FOR_ALL = {*HEAVY, "jmespath", "starlette", "uvicorn", "urllib3"}
OF_THE_CLIENT = ("api", "tokens", "errors", "inboxes", "settings")
WITHOUT_AIRFLOW = [
    *(f"{OURS}.{name}" for name in ("assets", "get_provider_info", "types")),
    *(f"{OURS}.client.{name}" for name in OF_THE_CLIENT),
]


def test_what_describes_the_protocol_and_its_assets_loads_neither_airflow_nor_http() -> None:
    heavy = {"airflow", "httpx", "pydantic", *NOT_FOR_ALL}
    assert modules_of(f"import {', '.join(WITHOUT_AIRFLOW)}") & heavy == set()


def test_the_hook_loads_no_more_than_airflow_itself() -> None:
    more = modules_of("import airflow_provider_workflow.hooks.workflow", "import airflow.sdk.bases.hook")
    assert more & NOT_FOR_ALL == set()


def test_the_client_of_tasks_loads_no_aiohttp() -> None:
    assert "aiohttp" not in modules_of("import airflow_provider_workflow.client.sync_client")
