"""``make release``: what it checks and changes in a repository; a failed check changes nothing."""

from __future__ import annotations

import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tools import evidence, release
from tools.release import ReleaseError

PYPROJECT = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "airflow-provider-workflow"
description = "For a test."
readme = "README.md"
dynamic = ["version"]
requires-python = ">=3.11"

[tool.hatch.version]
path = "airflow_provider_workflow/__init__.py"

[tool.hatch.build.targets.wheel]
packages = ["airflow_provider_workflow"]
"""
CHANGES = "# Changelog\n\n## Unreleased\n\n### Added\n\n- A change.\n\n## 0.1.0\n\n- The first.\n"


@pytest.fixture(autouse=True)
def author(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commits that need no configuration of this machine, and do not read it."""
    for role in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{role}_NAME", "A")
        monkeypatch.setenv(f"GIT_{role}_EMAIL", "a@example.com")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")


def git(repository: Path, *arguments: str) -> str:
    return release.run("git", *arguments, cwd=repository)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A small project with one commit, and a remote."""
    origin, root = tmp_path / "origin.git", tmp_path / "project"
    subprocess.run(["git", "init", "--quiet", "--bare", str(origin)], check=True)
    for name, text in {
        release.VERSION_FILE: '__version__ = "0.1.0"\n',
        release.CHANGELOG: CHANGES,
        release.STORED_FORMS: "{}\n",
        "pyproject.toml": PYPROJECT,
        "README.md": "A project.\n",
        "Makefile": "MATRIX ?= 3.3:3.11\n",
        evidence.PAGE: "# Evidence\n\n| check |\n",
        ".gitignore": "/dist/\n",
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    git(root, "init", "--quiet", "--initial-branch", "main")
    git(root, "remote", "add", "origin", str(origin))
    commit(root)
    show(root)
    git(root, "push", "--quiet", "origin", "main")
    return root


def show(repository: Path, without: str = "nothing") -> None:
    """Commit rows that show that the code of the current commit holds."""
    head = git(repository, "rev-parse", "HEAD")
    rows = {
        check.command: evidence.Row(evidence.KEPT, "seen", head, "2026-11-29")
        for check in evidence.checks(repository)
        if without not in check.command
    }
    evidence.write(repository, rows)
    commit(repository)


def commit(repository: Path) -> None:
    git(repository, "add", "--all")
    git(repository, "commit", "--quiet", "--message", "A change")


def prepare(repository: Path, version: str = "0.2.0") -> None:
    release.prepare(repository, version, repository / "dist")


def state_of(repository: Path) -> tuple[str, ...]:
    """All that a release could change: refs, files, and working trees."""
    return tuple(
        git(repository, *command.split())
        for command in ("show-ref", "status --porcelain --ignored", "worktree list", "ls-remote origin")
    )


def test_a_release_has_its_version_and_its_changes_in_one_commit(repository: Path) -> None:
    remote = git(repository, "ls-remote", "origin")
    prepare(repository)

    assert git(repository, "log", "-2", "--format=%s").splitlines() == ["Release 0.2.0", "A change"]
    assert f"| commits behind {git(repository, 'rev-parse', '--short=10', 'HEAD~1')} |" in (
        (repository / evidence.PAGE).read_text()
    )
    assert git(repository, "diff", "--name-only", "HEAD~1").splitlines() == [
        release.CHANGELOG,
        release.VERSION_FILE,
        evidence.PAGE,
        "tests/unit/stored/0.2.0.json",
    ]
    assert (repository / release.VERSION_FILE).read_text() == '__version__ = "0.2.0"\n'
    heading = f"## Unreleased\n\n## 0.2.0 - {datetime.now(UTC):%Y-%m-%d}\n\n### Added"
    changelog = (repository / release.CHANGELOG).read_text()
    assert heading in changelog
    assert changelog.endswith("\n## 0.1.0\n\n- The first.\n")
    assert git(repository, "status", "--porcelain") == ""
    assert git(repository, "ls-remote", "origin") == remote
    assert git(repository, "tag") == ""
    assert len(git(repository, "worktree", "list").splitlines()) == 1


@pytest.mark.parametrize(
    ("files", "version", "text"),
    [
        ({release.CHANGELOG: CHANGES.replace("- A change.", "")}, "0.2.0", "lists no change below '## Unrel"),
        ({release.CHANGELOG: "# Changelog\n"}, "0.2.0", "must have exactly one heading '## Unreleased'"),
        ({release.CHANGELOG: CHANGES + CHANGES}, "0.2.0", "must have exactly one heading '## Unreleased'"),
        ({"pyproject.toml": PYPROJECT.replace("name =", "nothing =")}, "0.2.0", "hatchling build .* failed"),
        ({}, "0.3.0", "The tag v0.3.0 exists"),
        ({}, "0.2", "VERSION must be of the form 1.2.3 or 1.2.3rc1, not '0.2'"),
        ({}, "0.0.9", "hatchling version 0.0.9 failed with code"),
        ({"new.py": ""}, "0.2.0", r"Commit, stash or remove these files first:\n\?\? new.py"),
    ],
)
def test_a_failed_check_changes_nothing(
    repository: Path, files: dict[str, str], version: str, text: str
) -> None:
    for name, content in files.items():
        (repository / name).write_text(content)
    if files and "new.py" not in files:
        commit(repository)
        show(repository)
    git(repository, "tag", "v0.3.0")
    before = state_of(repository)

    with pytest.raises(ReleaseError, match=text):
        prepare(repository, version)
    assert state_of(repository) == before


@pytest.mark.parametrize(
    ("without", "text"),
    [
        ("soak", r"lacks these \(make evidence\):\nmake soak .*: not measured$"),
        (
            "nothing",
            r"lacks these \(make evidence\):\nmake simulate .*: 1 files of code differ from \w+, such as pkg",
        ),
    ],
)
def test_a_release_needs_every_row_of_the_evidence_and_of_its_own_code(
    repository: Path, without: str, text: str
) -> None:
    show(repository, without)
    (repository / ("README.md" if without == "soak" else "pkg.py")).write_text("changed")
    commit(repository)
    before = state_of(repository)

    with pytest.raises(ReleaseError, match=text):
        prepare(repository)
    assert state_of(repository) == before


def test_what_an_earlier_release_left_in_its_folder_is_removed(repository: Path) -> None:
    (repository / "dist").mkdir()
    (repository / "dist/airflow_provider_workflow-0.1.0.tar.gz").touch()
    prepare(repository)

    assert sorted(path.name for path in (repository / "dist").iterdir()) == [
        "airflow_provider_workflow-0.2.0-py3-none-any.whl",
        "airflow_provider_workflow-0.2.0.tar.gz",
    ]
