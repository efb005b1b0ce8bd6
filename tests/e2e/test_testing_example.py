"""The example of ``docs/testing.md``, copied and run by the commands that stand there."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.unit.documents import DOCS, command

LONGEST_SECONDS = 300


def test_a_dag_is_tested_as_the_page_says(tmp_path: Path) -> None:
    shutil.copytree(DOCS / "examples" / "testing", tmp_path, dirs_exist_ok=True)
    env = {name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "PYTEST"))}
    env["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{env['PATH']}"
    done = subprocess.run(
        ["bash", "-e", "-c", command("docs/testing.md", "export")],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
        timeout=LONGEST_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-5000:]
    assert "4 passed" in done.stdout
