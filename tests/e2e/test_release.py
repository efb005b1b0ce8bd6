"""``make release`` of this project, in a clone."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from packaging.version import Version

from airflow_provider_workflow import __version__
from tools import evidence, release
from tools.release import PACKAGE, UNRELEASED, build, sums

ROOT = Path(__file__).parents[2]
NEXT = f"{Version(__version__).major + 1}.0.0"
AUTHOR = {
    f"GIT_{role}_{name}": value
    for role in ("AUTHOR", "COMMITTER")
    for name, value in {"NAME": "A", "EMAIL": "a@example.com"}.items()
}


def test_the_next_release_can_be_prepared_and_no_remote_is_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {**AUTHOR, "PYTHONPATH": ""}.items():
        monkeypatch.setenv(name, value)
    clone = tmp_path / "clone"
    release.run("git", "clone", "--quiet", ROOT, clone, cwd=ROOT)
    remote = release.run("git", "ls-remote", "origin", cwd=clone)
    # Right after a release nothing is unreleased.
    changelog = clone / release.CHANGELOG
    changelog.write_text(changelog.read_text().replace(UNRELEASED, f"{UNRELEASED}\n\n- A change."))
    release.run("git", "commit", "--quiet", "--all", "--message", "Change something", cwd=clone)

    command = [sys.executable, "-m", "tools.release", NEXT, "--to", "dist"]
    (clone / "new.py").touch()
    refs = release.run("git", "show-ref", cwd=clone)
    with pytest.raises(release.ReleaseError, match="Commit, stash or remove these files first"):
        release.run(*command, cwd=clone)
    assert release.run("git", "show-ref", cwd=clone) == refs
    (clone / "new.py").unlink()
    # As if all had been measured; the unit tests say what is refused otherwise.
    head = release.run("git", "rev-parse", "HEAD", cwd=clone).strip()
    row = evidence.Row(evidence.KEPT, "seen", head, "2026-01-01")
    evidence.write(clone, {check.command: row for check in evidence.checks(clone)})
    release.run("git", "commit", "--quiet", "--all", "--message", "Add evidence", cwd=clone)

    output = release.run(*command, cwd=clone)

    assert "two builds in two folders are identical" in output
    assert f"git tag --annotate v{NEXT}" in output
    assert set(sums(clone / "dist")) == {
        f"{PACKAGE}-{NEXT}-py3-none-any.whl",
        f"{PACKAGE}-{NEXT}.tar.gz",
    }
    assert release.run("git", "ls-remote", "origin", cwd=clone) == remote
    assert release.run("git", "status", "--porcelain", cwd=clone) == ""
    # What the forge builds from the tag.
    assert build(clone, tmp_path / "built") == sums(clone / "dist")
