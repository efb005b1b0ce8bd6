"""A DAG file that is parsed loads nothing that only a running task needs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

EXAMPLES = sorted((Path(__file__).parents[2] / "dags_examples").glob("*.py"))
HEAVY = {"requests", "aiohttp", "tenacity", "jmespath"}
AIRFLOW = (
    "import airflow.sdk, airflow.exceptions, airflow.triggers.base\n"
    "import airflow.providers.common.compat.sdk as compat\n"
    "compat.AirflowException, compat.BaseHook, compat.conf\n"
)


def loaded(code: str) -> set[str]:
    """The modules that a new interpreter has loaded after this code."""
    shown = f"{code}\nimport json, sys; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", shown], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_the_modules_of_a_dag_file_load_nothing_heavy_beyond_airflow() -> None:
    wanted = [f"airflow_provider_workflow.{name}.inbox" for name in ("sensors", "operators", "triggers")]
    more = loaded(f"{AIRFLOW}import {', '.join(wanted)}") - loaded(AIRFLOW)

    assert set(wanted) <= more
    assert more & HEAVY == set()
    assert "airflow_provider_workflow.hooks.workflow" not in more


def test_the_examples_import_and_warn_of_nothing() -> None:
    assert EXAMPLES
    loaded(
        "import runpy, warnings\n"
        "warnings.filterwarnings('error', module='airflow_provider_workflow')\n"
        f"for path in {[str(path) for path in EXAMPLES]!r}: runpy.run_path(path)"
    )
