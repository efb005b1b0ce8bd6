"""``make screenshots`` takes each picture that README and pages show."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tools.browser import browser_path

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
BOUND_SECONDS = 600

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(
        browser_path() is None, reason="no browser is installed (on Debian: apt install chromium)"
    ),
    pytest.mark.since(3, 3, "the page that is visited here"),
]


def pictures_of_docs() -> set[str]:
    """The names of all screenshots that a page shows; plots of benchmarks are SVG, and not taken here."""
    return {
        name
        for page in PAGES
        for name in re.findall(r"\]\((?:docs/)?images/([^)]+\.png)\)", page.read_text())
    }


def test_each_picture_is_taken_and_each_is_shown(tmp_path):
    process = subprocess.run(
        [sys.executable, "-m", "tools.screenshots", "--to", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=BOUND_SECONDS,
        check=False,
    )

    assert process.returncode == 0, process.stdout + process.stderr
    pictures = {picture.name for picture in tmp_path.iterdir()}
    assert (
        pictures
        == pictures_of_docs()
        == {picture.name for picture in (ROOT / "docs" / "images").glob("*.png")}
    )
