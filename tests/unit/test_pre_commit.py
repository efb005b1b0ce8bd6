"""The hooks before a commit run the targets of the Makefile that check without running anything."""

from __future__ import annotations

import re
from typing import Any

import yaml

from tests.unit.documents import ROOT

OTHERS = {"setup", "docs", "unit", "unit-slow", "e2e"}
"""What ``make test`` does besides."""


def hooks() -> list[dict[str, Any]]:
    """All hooks, none of them fetched from elsewhere."""
    (repo,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    assert repo["repo"] == "local"
    found: list[dict[str, Any]] = repo["hooks"]
    return found


def test_the_hooks_are_the_checks_of_make_test() -> None:
    (wanted,) = re.findall(r"^test: (.*?) ##", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert {hook["id"] for hook in hooks()} == set(wanted.split()) - OTHERS


def test_every_hook_runs_its_target_on_the_whole_tree() -> None:
    for hook in hooks():
        assert hook["entry"] == f"make --silent {hook['id']}"
        assert hook["language"] == "system"
        assert hook["pass_filenames"] is False
