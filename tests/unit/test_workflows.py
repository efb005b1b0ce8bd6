"""The workflows of the forge, and the hooks before a commit, run targets of the Makefile."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.unit.documents import ROOT
from tests.unit.test_versions import MAKEFILE, PAIRS

FOLDER = ROOT / ".github" / "workflows"
WORKFLOWS = {path.stem: yaml.safe_load(path.read_text()) for path in sorted(FOLDER.glob("*.yml"))}
TARGETS = set(re.findall(r"^([a-z0-9-]+):", MAKEFILE, re.MULTILINE))
VARIABLES = set(re.findall(r"^(?:[$()_A-Z]+: )?([A-Z0-9]+) \??:?= ", MAKEFILE, re.MULTILINE))


def jobs() -> Iterator[tuple[str, dict[str, Any]]]:
    for name, workflow in WORKFLOWS.items():
        for job, content in workflow["jobs"].items():
            yield f"{name}: {job}", content


def steps() -> list[dict[str, Any]]:
    return [step for _, job in jobs() for step in job["steps"]]


def wanted_by_make_test() -> set[str]:
    (targets,) = re.findall(r"^test: (.*?) ##", MAKEFILE, re.MULTILINE)
    return set(targets.split())


def test_every_target_that_is_made_and_every_variable_that_is_given_exists() -> None:
    # Without expressions of the forge.
    commands = [re.sub(r"\$\{\{.*?\}\}", "x", step["run"]) for step in steps() if "run" in step]
    arguments = [
        word for line in commands for call in re.findall(r"\bmake (.*)", line) for word in call.split()
    ]
    variables = {word.partition("=")[0] for word in arguments if "=" in word}
    assert {"AIRFLOW", "PYTHON"} <= variables <= VARIABLES
    targets = {word for word in arguments if "=" not in word}
    assert len(TARGETS) > 15
    assert {"setup", "unit", "e2e", "dist", "types"} <= targets <= TARGETS


def test_everything_that_make_test_checks_is_checked() -> None:
    of_ci = {
        word
        for step in WORKFLOWS["ci"]["jobs"].values()
        for command in step["steps"]
        for word in command.get("run", "").split()
    }
    assert wanted_by_make_test() <= of_ci


def test_the_pairs_of_airflow_and_python_are_those_of_the_test_matrix() -> None:
    included = WORKFLOWS["ci"]["jobs"]["unit"]["strategy"]["matrix"]["include"]
    assert [f"{entry['airflow']}:{entry['python']}" for entry in included] == PAIRS


def test_every_action_is_named_by_its_commit_with_its_version_in_a_comment() -> None:
    lines = [line for path in FOLDER.iterdir() for line in path.read_text().splitlines() if "uses: " in line]
    actions = {line.split("uses: ")[1] for line in lines}
    assert len(lines) == len([step for step in steps() if "uses" in step]) > 5
    assert [
        line for line in actions if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", line)
    ] == []
    assert len({line.split("@")[0] for line in actions}) == len(actions), "one action has two versions"


def test_every_job_has_a_time_limit_and_a_pinned_runner() -> None:
    for name, job in jobs():
        assert 0 < job["timeout-minutes"] <= 120, name
        assert re.fullmatch(r"ubuntu-\d\d\.04", job["runs-on"]), name


def test_only_the_job_that_publishes_has_rights_beyond_reading() -> None:
    assert set(WORKFLOWS) == {"ci", "release"}
    assert all(workflow["permissions"] == {"contents": "read"} for workflow in WORKFLOWS.values())
    assert {name: job["permissions"] for name, job in jobs() if "permissions" in job} == {
        "release: publish": {"id-token": "write"}
    }


def test_no_workflow_uses_a_secret_and_no_checkout_keeps_credentials() -> None:
    assert not [path for path in FOLDER.iterdir() if "secrets." in path.read_text()]
    checkouts = [step for step in steps() if step.get("uses", "").startswith("actions/checkout")]
    assert all(step["with"] == {"persist-credentials": False} for step in checkouts)


def test_a_release_is_published_with_attestations_after_its_build_and_tests() -> None:
    # YAML reads the key "on" as a boolean.
    assert WORKFLOWS["release"][True] == {"push": {"tags": ["v[0-9]*"]}}
    publish = WORKFLOWS["release"]["jobs"]["publish"]
    assert publish["needs"] == ["build", "test"]
    assert publish["environment"] == "pypi"
    (step,) = [
        publishing
        for publishing in publish["steps"]
        if publishing["uses"].startswith("pypa/gh-action-pypi-publish@")
    ]
    assert step["with"]["attestations"] is True
    assert not {"password", "user"} & set(step["with"])


@pytest.mark.parametrize(("tag", "matches"), [("v0.1.0", True), ("v0.1.0rc1", False), ("v10.1.0", False)])
def test_the_tag_of_a_release_is_compared_with_the_version(tag: str, matches: bool) -> None:
    (command,) = [step["run"] for step in steps() if "GITHUB_REF_NAME" in step.get("run", "")]
    line = re.findall(r'"(__version__ = .*)" ', command)[0].replace('\\"', '"')
    assert (line.replace("${GITHUB_REF_NAME#v}", tag[1:]) == '__version__ = "0.1.0"') is matches
    assert "--line-regexp" in command


def test_the_hooks_before_a_commit_are_the_checks_of_make_test_on_the_whole_tree() -> None:
    (repo,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    assert repo["repo"] == "local", "nothing is fetched from elsewhere"
    hooks = {hook["id"] for hook in repo["hooks"]}
    assert hooks == wanted_by_make_test() - {"setup", "docs", "unit", "unit-slow", "e2e"}
    for hook in repo["hooks"]:
        assert hook["entry"] == f"make --silent {hook['id']}"
        assert hook["language"] == "system"
        assert hook["pass_filenames"] is False
