"""The examples of ``docs/testing.md``, copied and run by the commands that stand there."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.e2e.examples import EXAMPLES
from tests.unit.documents import DOCS, ROOT, command

MAX_SECONDS = 1800
"""``dag.test()`` takes seconds of CPU time for each task."""
OWN = {"test_invoices", "test_orders"}
"""The tests of the DAGs that stand on the page."""
OF_EXAMPLES = {f"test_{Path(file).stem}" for file, example in EXAMPLES.items() if example.runs_here}
"""The tests of the example DAGs that this Airflow can run."""


def modules_that_pass(project: Path) -> set[str]:
    """
    Run the commands of the page without any other configuration, and assert that no test fails.

    :return: the test modules of which a test passed.
    """
    env = {name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "PYTEST"))}
    # Where Airflow has its home if nothing names one.
    env["HOME"] = str(project / "user")
    env["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{env['PATH']}"
    report = project / "report.xml"
    env["PYTEST_ADDOPTS"] = f"--junitxml={report}"
    process = subprocess.run(
        ["bash", "-e", "-c", command("docs/testing.md", "export")],
        cwd=project,
        env=env,
        capture_output=True,
        text=True,
        timeout=MAX_SECONDS,
        check=False,
    )
    assert process.returncode == 0, process.stdout[-5000:] + process.stderr[-5000:]
    assert not (project / "user" / "airflow").exists()
    # What was skipped has an element that says why.
    cases = [case for case in ElementTree.parse(report).iter("testcase") if len(case) == 0]
    return {case.attrib["classname"].rpartition(".")[2] for case in cases}


@pytest.mark.nightly
def test_dags_and_all_examples_are_tested(tmp_path: Path) -> None:
    shutil.copytree(DOCS / "examples" / "testing", tmp_path, dirs_exist_ok=True)
    shutil.copytree(ROOT / "dags_examples", tmp_path / "dags", dirs_exist_ok=True)

    assert modules_that_pass(tmp_path) == OWN | OF_EXAMPLES
