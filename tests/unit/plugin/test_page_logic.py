"""The modules of the page: their logic in node's own test runner, their size, and what they never contain."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

import airflow_provider_workflow

STATIC = Path(airflow_provider_workflow.__file__).parent / "plugin" / "static"
TESTS = Path(__file__).parents[2] / "page"
MOST_BYTES = 45_000
NODE = shutil.which("node")
OLDEST_NODE = (20, 19)
"""The first one that tells modules from scripts by their content."""


def node_version() -> tuple[int, ...]:
    """The version of node; empty without one."""
    if NODE is None:
        return ()
    done = subprocess.run([NODE, "--version"], capture_output=True, text=True, timeout=60, check=True)
    return tuple(map(int, re.findall(r"\d+", done.stdout)))


@pytest.mark.slow
@pytest.mark.skipif(node_version() < OLDEST_NODE, reason="needs node 20.19 or newer")
def test_the_logic_of_the_page_passes_its_own_tests():
    files = sorted(map(str, TESTS.glob("*.test.mjs")))
    done = subprocess.run(
        [str(NODE), "--test", "--test-reporter=tap", *files],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )

    counted = dict(re.findall(r"^# (tests|pass|fail) (\d+)$", done.stdout, re.MULTILINE))
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    assert files
    assert int(counted["tests"]) == int(counted["pass"]) > len(files)


def test_the_page_stays_small():
    sizes = {each.name: each.stat().st_size for each in STATIC.glob("*.js")}

    assert "inboxes.js" in sizes
    assert sum(sizes.values()) < MOST_BYTES, sizes


def test_each_module_that_is_imported_is_there():
    modules = {each.name: each.read_text() for each in STATIC.glob("*.js")}

    imported = {name for text in modules.values() for name in re.findall(r'from "\./([^"]+)"', text)}
    assert imported == set(modules) - {"inboxes.js"}


@pytest.mark.parametrize(
    "name", ["innerHTML", "outerHTML", "insertAdjacentHTML", "dangerouslySetInnerHTML", "eval("]
)
def test_no_text_is_ever_made_into_markup(name):
    assert [each.name for each in STATIC.glob("*.js") if name in each.read_text()] == []
