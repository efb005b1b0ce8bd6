"""``make release``: what it checks and changes in a repository; a failed check changes nothing."""

from __future__ import annotations

import subprocess
import tarfile
from pathlib import Path

import pytest

from tools import release
from tools.release import Options, ReleaseError, Repository

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
urls = { Source = "https://code.invalid/" }

[tool.hatch.version]
path = "airflow_provider_workflow/__init__.py"

[tool.hatch.build.targets.wheel]
packages = ["airflow_provider_workflow"]
"""
CHANGES = "# Changelog\n\n## Unreleased\n\n### Added\n\n- A change.\n\n## 0.1.0\n\n- The first.\n"
DATE = "2026-01-31"


@pytest.fixture(autouse=True)
def author(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commits that need no configuration of this machine, and do not read it."""
    for role in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{role}_NAME", "A")
        monkeypatch.setenv(f"GIT_{role}_EMAIL", "a@example.com")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    """A small project with one commit, and a remote."""
    origin = tmp_path / "origin.git"
    subprocess.run(["git", "init", "--quiet", "--bare", str(origin)], check=True)
    made = Repository(tmp_path / "project")
    (made.root / release.PACKAGE).mkdir(parents=True)
    (made.root / release.VERSION_FILE).write_text('__version__ = "0.1.0"\n')
    (made.root / release.CHANGELOG).write_text(CHANGES)
    (made.root / release.STORED_FORMS).parent.mkdir(parents=True)
    (made.root / release.STORED_FORMS).write_text("{}\n")
    (made.root / "pyproject.toml").write_text(PYPROJECT)
    (made.root / "README.md").write_text("[A link](https://code.invalid/), and more.\n")
    (made.root / ".gitignore").write_text("/dist/\n")
    made.git("init", "--quiet", "--initial-branch", "main")
    made.git("remote", "add", "origin", str(origin))
    commit(made)
    made.git("push", "--quiet", "origin", "main")
    return made


def commit(repository: Repository) -> None:
    """Commit all files."""
    repository.git("add", "--all")
    repository.git("commit", "--quiet", "--message", "A change")


def options_of(repository: Repository, version: str = "0.2.0") -> Options:
    return Options(version, DATE, repository.root / "dist", install=False)


def state_of(repository: Repository) -> tuple[str, ...]:
    """All that a release could change: refs, files, and working trees."""
    return tuple(
        repository.git(*command.split())
        for command in ("show-ref", "status --porcelain --ignored", "worktree list", "ls-remote origin")
    )


# The whole


def test_a_release_has_its_version_and_its_changes_in_one_commit(repository: Repository) -> None:
    remote = repository.git("ls-remote", "origin")
    release.prepare(repository, options_of(repository), lambda _: None)

    assert repository.git("log", "-2", "--format=%s").splitlines() == ["Release 0.2.0", "A change"]
    assert repository.git("diff", "--name-only", "HEAD~1").splitlines() == [
        release.CHANGELOG,
        release.VERSION_FILE,
        "tests/unit/stored/0.2.0.json",
    ]
    assert (repository.root / release.VERSION_FILE).read_text() == '__version__ = "0.2.0"\n'
    assert (
        f"## Unreleased\n\n## 0.2.0 ({DATE})\n\n### Added"
        in (repository.root / release.CHANGELOG).read_text()
    )
    repository.check_clean()
    assert repository.git("ls-remote", "origin") == remote
    assert repository.git("tag") == ""
    assert len(repository.git("worktree", "list").splitlines()) == 1


def test_a_release_builds_sdist_and_wheel_of_its_commit(repository: Repository) -> None:
    (repository.root / "dist").mkdir()
    (repository.root / "dist/old.whl").write_text("")
    release.prepare(repository, options_of(repository), lambda _: None)

    assert sorted(release.sums(repository.root / "dist")) == [
        "airflow_provider_workflow-0.2.0-py3-none-any.whl",
        "airflow_provider_workflow-0.2.0.tar.gz",
    ]
    with tarfile.open(repository.root / "dist/airflow_provider_workflow-0.2.0.tar.gz") as sdist:
        assert {member.mtime for member in sdist.getmembers()} == {int(repository.epoch())}


def test_building_the_commit_of_a_release_again_gives_the_same_files(
    repository: Repository, tmp_path: Path
) -> None:
    release.prepare(repository, options_of(repository), lambda _: None)

    clone = Repository(tmp_path / "clone")
    repository.git("clone", "--quiet", ".", str(clone.root))
    assert release.build(clone, tmp_path / "built") == release.sums(repository.root / "dist")


def test_the_next_steps_are_named_with_the_sums_and_the_placeholders(repository: Repository) -> None:
    said: list[str] = []
    release.prepare(repository, options_of(repository), said.append)

    text = "\n".join(said)
    for expected in (
        "git tag --annotate v0.2.0",
        "git push --atomic origin main v0.2.0",
        "[project.urls] of pyproject.toml are placeholders",
        *release.sums(repository.root / "dist").values(),
    ):
        assert expected in text


# What stops it, and changes nothing


def break_link(repository: Repository) -> None:
    (repository.root / "README.md").write_text("[A link](docs/a.md)\n")
    commit(repository)


def break_readme(repository: Repository) -> None:
    pyproject = repository.root / "pyproject.toml"
    pyproject.write_text(pyproject.read_text().replace("README.md", "README.rst"))
    (repository.root / "README.rst").write_text("Title\n==\n\n.. unknown::\n")
    commit(repository)


def break_build(repository: Repository) -> None:
    (repository.root / "pyproject.toml").write_text(PYPROJECT.replace("name =", "nothing ="))
    commit(repository)


def leave_a_change(repository: Repository) -> None:
    (repository.root / "README.md").write_text("changed")


def leave_a_file(repository: Repository) -> None:
    (repository.root / "new.py").write_text("")


def empty_changelog(repository: Repository) -> None:
    (repository.root / release.CHANGELOG).write_text(CHANGES.replace("- A change.", ""))
    commit(repository)


def tag(repository: Repository) -> None:
    repository.git("tag", "v0.2.0")


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (leave_a_change, "Commit, stash or remove these files first:\nM README.md"),
        (leave_a_file, r"\?\? new.py"),
        (empty_changelog, "lists no change below '## Unreleased'"),
        (tag, "The tag v0.2.0 exists"),
        (break_build, "hatchling build .* failed with code"),
        (break_link, "relative .*docs/a.md"),
        (break_readme, "twine check"),
    ],
)
def test_a_failed_check_changes_nothing(repository: Repository, fault: object, said: str) -> None:
    assert callable(fault)
    fault(repository)
    before = state_of(repository)

    with pytest.raises(ReleaseError, match=said):
        release.prepare(repository, options_of(repository), lambda _: None)
    assert state_of(repository) == before


def test_a_build_that_is_not_reproducible_is_no_release(repository: Repository) -> None:
    hook = (
        "import os\n"
        "from hatchling.builders.hooks.plugin.interface import BuildHookInterface\n"
        "class Hook(BuildHookInterface):\n"
        "    def initialize(self, version, build_data):\n"
        "        path = os.path.join(self.root, 'airflow_provider_workflow', 'random.txt')\n"
        "        open(path, 'wb').write(os.urandom(8))\n"
        "        build_data['artifacts'].append('random.txt')\n"
    )
    (repository.root / "hatch_build.py").write_text(hook)
    with (repository.root / "pyproject.toml").open("a") as pyproject:
        pyproject.write("\n[tool.hatch.build.hooks.custom]\n")
    commit(repository)
    before = state_of(repository)

    with pytest.raises(ReleaseError, match=r"differ in .*\.tar\.gz: not reproducible"):
        release.prepare(repository, options_of(repository), lambda _: None)
    assert state_of(repository) == before


def test_an_installation_that_fails_changes_nothing(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> Path:
        raise ReleaseError("pip install failed")

    monkeypatch.setattr(release, "check_installation", fails)
    before = state_of(repository)
    with pytest.raises(ReleaseError, match="pip install failed"):
        release.prepare(
            repository, Options("0.2.0", DATE, repository.root / "dist", install=True), lambda _: None
        )
    assert state_of(repository) == before


def test_the_command_says_what_to_fix_and_fails(
    repository: Repository, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(repository.root)
    assert release.main(["0.2", "--no-install"]) == 1
    assert "nothing was changed. VERSION must be of the form 1.2.3" in capsys.readouterr().err

    assert release.main(["0.2.0", "--no-install", "--date", DATE]) == 0
    assert "two builds in two folders are identical" in capsys.readouterr().out


# The parts


@pytest.mark.parametrize("version", ["0.2.0", "0.1.1", "1.0.0", "0.2.0rc1", "0.2.0a1", "10.0.0b12"])
def test_a_later_version_may_be_released(version: str) -> None:
    release.check_version(version, "0.1.0", {"v0.1.0"})


@pytest.mark.parametrize(
    ("version", "said"),
    [
        *((version, "of the form 1.2.3") for version in ("", "1", "1.2", "v1.2.3", "1.2.3.4", "01.2.3")),
        *((version, "of the form 1.2.3") for version in ("1.2.3-rc1", "1.2.3rc", "1.2.3+local", "1.2.3\n")),
        ("0.1.0", "later than the current version, 0.1.0"),
        ("0.1.0rc1", "later than the current version"),
        ("0.0.9", "later than the current version"),
        ("0.3.0", "The tag v0.3.0 exists"),
    ],
)
def test_another_version_may_not(version: str, said: str) -> None:
    with pytest.raises(ReleaseError, match=said):
        release.check_version(version, "0.1.0", {"v0.3.0"})


@pytest.mark.parametrize("text", ["", "__version__ = '1.0.0'\n", '__version__ = "1"\n__version__ = "2"\n'])
def test_a_version_that_is_not_written_once_is_named(text: str) -> None:
    with pytest.raises(ReleaseError, match="must have one line"):
        release.current_version(text)


@pytest.mark.parametrize("text", ["# Changelog\n", f"{CHANGES}\n## Unreleased\n\n- More.\n"])
def test_a_changelog_needs_one_section_of_unreleased_changes(text: str) -> None:
    with pytest.raises(ReleaseError, match="exactly one heading '## Unreleased'"):
        release.released(text, "0.2.0", DATE)


def test_changes_of_former_versions_stay_as_they_are() -> None:
    assert release.released(CHANGES, "0.2.0", DATE).endswith("\n## 0.1.0\n\n- The first.\n")


def test_the_project_keeps_its_version_and_changelog_in_the_expected_form() -> None:
    root = Path(release.__file__).parents[1]
    version = release.current_version((root / release.VERSION_FILE).read_text())
    assert "99.0.0 (" in release.released((root / release.CHANGELOG).read_text(), "99.0.0", DATE)
    assert release.pins(root).exists()
    assert version


def test_the_bill_of_materials_describes_the_environment_reproducibly(
    repository: Repository, tmp_path: Path
) -> None:
    tool = tmp_path / "cyclonedx-py"
    tool.write_text(f'#!/bin/sh\necho "$SOURCE_DATE_EPOCH $*" > {tmp_path}/asked\n')
    tool.chmod(0o755)
    python, target = tmp_path / "bin/python", tmp_path / "a.json"
    release.write_bill_of_materials(str(tool), python, repository, target)

    asked = (tmp_path / "asked").read_text().split()
    assert asked[:2] == [repository.epoch(), "environment"]
    assert "--output-reproducible" in asked
    assert asked[-2:] == [str(target), str(python)]


def test_a_command_that_takes_too_long_is_named(tmp_path: Path) -> None:
    with pytest.raises(ReleaseError, match=r"sleep 60 took longer than 0\.1 s"):
        release.run(["sleep", "60"], tmp_path, 0.1)


@pytest.mark.parametrize("to", [".", "..", "airflow_provider_workflow"])
def test_a_folder_that_holds_more_than_a_release_is_never_replaced(repository: Repository, to: str) -> None:
    with pytest.raises(ReleaseError, match="DIST is replaced"):
        release.prepare(
            repository, Options("0.2.0", DATE, repository.root / to, install=False), lambda _: None
        )
    assert (repository.root / release.VERSION_FILE).exists()
    assert repository.git("rev-list", "--count", "HEAD") == "1"
