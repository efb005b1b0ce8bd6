"""``make evidence``: what it runs, the rows that it writes, and for which commits they hold."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.unit.tools.test_release import author, commit, git
from tools import evidence
from tools.evidence import AFTER_BROKEN, BROKEN, KEPT, main

__all__ = ["author"]

MAKEFILE = """
MATRIX ?= 3.3:3.11
simulate:
\t@echo "Result: seed $(SEED), calm $(CALM)"
mutations:
\t@echo "Seeding"; echo "Result: 3 of 3 faults | all"
e2e:
\t@echo "4 skipped"
soak:
\t@echo "Result: something grows"; exit 3
crash-test:
\t@exit 4
test-matrix:
\t@echo "Result: 1 passed"
bench:
\t@echo "Result: 9 figures"
"""
PAGE = "# Evidence\n\nWhat was measured?\n\n| check |\n"


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository whose Makefile has the targets that are run, and one commit."""
    root = tmp_path / "project"
    for name, text in {
        "Makefile": MAKEFILE,
        evidence.PAGE: PAGE,
        "docs/examples/orders.py": "",
        "pkg/code.py": "",
        "README.md": "",
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    git(tmp_path, "init", "--quiet", str(root))
    commit(root)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    install(tmp_path, "exit 0")
    for name in evidence.SERVERS:
        monkeypatch.setenv(name, "of-a-test")
    monkeypatch.delenv("WORKFLOW_TEST_RABBITMQ", raising=False)
    return root


def install(folder: Path, command: str) -> None:
    """A program that stands for a Python."""
    python = folder / "python3.11"
    python.write_text(f"#!/bin/sh\n{command}\n")
    python.chmod(0o755)


def row(repository: Path, word: str) -> evidence.Row | None:
    """The row of the one check with this word in its command."""
    (found,) = [row for command, row in evidence.read(repository).items() if word in command] or [None]
    return found


def test_a_row_says_that_a_check_was_kept_what_it_saw_and_on_which_commit(repository: Path) -> None:
    assert main(["mutations"], repository) == 0

    page = (repository / evidence.PAGE).read_text()
    head = git(repository, "rev-parse", "--short=10", "HEAD")
    assert page.startswith("# Evidence\n\nWhat was measured?\n\n| check | verdict | ")
    assert f"\n| seeded faults | kept | 3 of 3 faults / all | `make mutations` | {head} | 0 | 20" in page
    assert "\n| soak | not measured |  | `make soak " in page, "what has no row is not passed over"


@pytest.mark.parametrize(
    ("word", "result"),
    [
        ("soak", "something grows; ended with code 2"),
        ("crash-test", "ended with code 2"),
        ("e2e", "ended with code 0"),
    ],
)
def test_what_ends_without_success_or_without_a_word_is_broken(
    repository: Path, word: str, result: str
) -> None:
    assert main([word], repository) == 1

    found = row(repository, word)
    assert found
    assert (found.verdict, found.result) == (BROKEN, result)


@pytest.mark.parametrize(
    ("word", "missing"),
    [("bench", "WORKFLOW_TEST_RABBITMQ is not set"), ("MATRIX=3.3:3.11", "python3.11 is not installed")],
)
def test_a_check_whose_server_or_python_is_missing_is_not_tried(
    repository: Path, word: str, missing: str, capsys: pytest.CaptureFixture[str]
) -> None:
    # What stands for an interpreter that is not installed.
    install(repository.parent, "exit 127")

    assert main([word], repository) == 1
    assert f" was not tried: {missing}." in capsys.readouterr().err
    assert evidence.read(repository) == {}


@pytest.mark.parametrize("name", ["pkg/new.py", "pkg/code.py", "docs/examples/orders.py"])
def test_code_that_is_not_committed_is_not_measured(
    repository: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (repository / name).write_text("changed")

    assert main(["mutations"], repository) == 1
    assert (
        f"Commit, stash or remove first what is measured: 1 files of code differ from HEAD, such as {name}"
        in (capsys.readouterr().err)
    )
    assert evidence.read(repository) == {}


def test_a_check_during_which_the_code_was_changed_has_no_row(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (repository / "Makefile").write_text(MAKEFILE.replace('echo "Seeding"', "touch pkg/new.py"))
    commit(repository)
    assert main(["mutations"], repository) == 1

    assert "is kept, but of no commit: meanwhile 1 files of code differ" in capsys.readouterr().err
    assert evidence.read(repository) == {}


def test_what_was_interrupted_goes_on_with_what_has_no_row_of_this_code(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["mutations", "SEED=0"], repository) == 0
    assert main(["soak"], repository) == 1
    commit(repository)
    capsys.readouterr()

    assert main([], repository) == 1
    output = capsys.readouterr().out
    begun = [line for line in output.splitlines() if line.startswith("== make ")]
    assert not [line for line in begun if "mutations" in line or "soak" in line or line.endswith("SEED=0")]
    assert len([line for line in begun if "simulate" in line]) == 3
    assert "== BROKEN, with this code: make soak" in output

    (repository / "pkg/code.py").write_text("changed")
    commit(repository)
    assert main([], repository) == 1
    assert "== make mutations" in capsys.readouterr().out


def test_another_try_of_the_same_code_does_not_hide_the_broken_one(repository: Path) -> None:
    (repository / "Makefile").write_text(MAKEFILE.replace("exit 3", f"test -e {repository.parent}/mended"))
    commit(repository)
    assert main(["soak"], repository) == 1
    (repository.parent / "mended").touch()
    for _ in range(2):
        assert main(["soak"], repository) == 0
        found = row(repository, "soak")
        assert found
        assert (found.verdict, found.result) == (KEPT, f"something grows{AFTER_BROKEN}")

    (repository / "pkg/code.py").write_text("changed")
    commit(repository)
    assert main(["soak"], repository) == 0
    found = row(repository, "soak")
    assert found
    assert found.result == "something grows"


def test_only_its_command_decides_how_a_check_runs(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"CALM": "1", "SEED": "7", "MAKEFLAGS": "CALM=2", "AIRFLOW__CORE__X": "1"}.items():
        monkeypatch.setenv(name, value)
    assert main(["simulate"], repository) == 0

    results = [row.result for row in evidence.read(repository).values()]
    assert results == [f"seed {seed}, calm" for seed in (0, 50_000, 100_000, 150_000)]


def test_a_row_holds_until_code_changes_and_says_how_many_commits_it_is_behind(repository: Path) -> None:
    (check,) = [check for check in evidence.checks(repository) if "mutations" in check.command]
    assert evidence.fault(repository, check) == "make mutations: not measured"
    main(["mutations"], repository)
    (repository / "README.md").write_text("changed")
    commit(repository)
    evidence.write(repository, evidence.read(repository))
    assert evidence.fault(repository, check) == ""
    assert " | 1, of documentation | 20" in (repository / evidence.PAGE).read_text()

    (repository / "docs/examples/orders.py").write_text("changed")
    commit(repository)
    evidence.write(repository, evidence.read(repository))
    assert evidence.fault(repository, check).startswith("make mutations: 1 files of code differ from ")
    assert " | 2 | 20" in (repository / evidence.PAGE).read_text()


def test_a_row_of_a_commit_that_is_not_in_this_clone_does_not_hold(repository: Path) -> None:
    command = "make mutations"
    evidence.write(repository, {command: evidence.Row(KEPT, "3 of 3", "0123456789", "2026-11-29")})

    assert f"{command}: 0123456789 is no commit of this clone" in evidence.faults(repository)
    assert " | unknown | 2026-11-29 |" in (repository / evidence.PAGE).read_text()


def test_a_release_needs_200000_histories_100_kills_two_hours_and_all_pairs() -> None:
    commands = [check.command for check in evidence.checks(Path(evidence.__file__).parents[1])]
    seeds = sorted(int(command.rpartition("=")[2]) for command in commands if "simulate" in command)

    assert seeds == list(range(0, 200_000, 50_000))
    assert all("SEEDS=50000 " in command for command in commands if "simulate" in command)
    for words in (
        "make mutations",
        "AIRFLOW=3.4 PYTHON=python3.11 VENV=.matrix/airflow-3.4-python3.11 E2E=tests/e2e/test_traces.py",
        "make crash-test MESSAGES=10000 MINUTES=60 KILLS=100",
        "make soak MINUTES=120 ",
        "make bench ONLY=peers",
        "make test-matrix MATRIX=3.2:3.11",
        "make test-matrix MATRIX=3.4:3.13",
    ):
        assert [command for command in commands if words in command], words
