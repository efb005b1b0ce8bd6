"""``make release`` of this project, in a clone: all of it but the installation, which takes minutes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from packaging.version import Version

from airflow_provider_workflow import __version__
from tools.release import PACKAGE, Repository, build, sums

ROOT = Path(__file__).parents[2]
RELEASE_SECONDS = 300
NEXT = f"{Version(__version__).major + 1}.0.0"
AUTHOR = {
    f"GIT_{role}_{name}": value
    for role in ("AUTHOR", "COMMITTER")
    for name, value in {"NAME": "A", "EMAIL": "a@example.com"}.items()
}


def run(command: list[str], cwd: Path, env: Mapping[str, str]) -> str:
    """What a command prints."""
    done = subprocess.run(
        command, cwd=cwd, env=env, timeout=RELEASE_SECONDS, check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_next_release_can_be_prepared_and_no_remote_is_changed(tmp_path: Path) -> None:
    clone = Repository(tmp_path / "clone")
    Repository(ROOT).git("clone", "--quiet", str(ROOT), str(clone.root))
    remote = clone.git("ls-remote", "origin")

    env = {**os.environ, **AUTHOR, "PYTHONPATH": ""}
    command = [sys.executable, "-m", "tools.release", NEXT, "--to", "dist", "--no-install"]
    said = run(command, clone.root, env)

    assert "two builds in two folders are identical" in said
    assert f"git tag --annotate v{NEXT}" in said
    assert set(sums(clone.root / "dist")) == {
        f"{PACKAGE}-{NEXT}-py3-none-any.whl",
        f"{PACKAGE}-{NEXT}.tar.gz",
    }
    assert clone.git("ls-remote", "origin") == remote
    clone.check_clean()
    # What the forge builds from the tag.
    assert build(clone, tmp_path / "built") == sums(clone.root / "dist")
