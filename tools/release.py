"""
``make release VERSION=x.y.z``: prepare a release in this repository, and change no remote.

The rows of ``docs/evidence.md`` must show that the code of the current commit holds. Everything else is done
in a temporary working tree of that commit: version and changelog are changed and committed there, sdist and
wheel are built twice and compared, and checked as a package index checks them. Only if all of this succeeds,
``dist`` gets the files and the current branch the commit. What remains to be done, the tag and the push, is
printed.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from tools import evidence

PACKAGE = "airflow_provider_workflow"
VERSION_FILE = f"{PACKAGE}/__init__.py"
CHANGELOG = "CHANGELOG.md"
UNRELEASED = "## Unreleased"
NEXT_STEPS = """
The branch {branch} has the commit "Release {version}"; no remote was changed. Next:
  git show
  git tag --annotate v{version} --message v{version}
  git push --atomic origin {branch} v{version}
The push of the tag starts .github/workflows/release.yml, which builds and publishes it.
To undo it before the push: git reset --hard HEAD~1"""
STORED_FORMS = "tests/unit/stored/unreleased.json"
_FORM = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)((a|b|rc)[1-9]\d*)?")


class ReleaseError(Exception):
    """The release cannot be prepared; the text says why, and how to fix it. Nothing was changed."""


def run(*command: str | Path, cwd: Path, **variables: str) -> str:
    """
    Run a command, and return what it prints.

    :param variables: additional environment variables.
    :raises ReleaseError: it failed; the text has its output.
    """
    words = list(map(str, command))
    environment = {**os.environ, **variables}
    process = subprocess.run(
        words, cwd=cwd, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    if process.returncode != 0:
        raise ReleaseError(
            f"{' '.join(words)} failed with code {process.returncode}:\n{process.stdout.strip()}"
        )
    return process.stdout.strip()


@contextmanager
def working_tree(repository: Path, commit: str = "HEAD") -> Iterator[Path]:
    """A temporary working tree of a commit; it is removed at the end."""
    with tempfile.TemporaryDirectory(prefix="release-") as folder:
        tree = Path(folder).resolve() / "tree"
        run("git", "worktree", "add", "--quiet", "--detach", tree, commit, cwd=repository)
        try:
            yield tree
        finally:
            run("git", "worktree", "remove", "--force", tree, cwd=repository)


def released(changelog: str, version: str, date: str) -> str:
    """
    The changelog with its unreleased changes below a heading of the version.

    :param date: in the form ``2026-01-31``.
    :raises ReleaseError: there is not exactly one section of unreleased changes, or it is empty.
    """
    before, heading, rest = changelog.partition(f"{UNRELEASED}\n")
    if not heading or UNRELEASED in rest:
        raise ReleaseError(f"{CHANGELOG} must have exactly one heading {UNRELEASED!r}.")
    if not re.search(r"^- ", rest.partition("\n## ")[0], re.MULTILINE):
        raise ReleaseError(f"{CHANGELOG} lists no change below {UNRELEASED!r}. Add what users notice.")
    return f"{before}{heading}\n## {version} - {date}\n{rest}"


def commit_version(tree: Path, version: str) -> str:
    """
    Set version and changelog of a working tree, keep what this version stores in databases, and commit.

    The evidence says how many commits of documentation it is behind.

    :return: the id of the commit.
    :raises ReleaseError: it cannot be the next version, or the changelog is not as expected.
    """
    if not _FORM.fullmatch(version):
        raise ReleaseError(f"VERSION must be of the form 1.2.3 or 1.2.3rc1, not {version!r}.")
    if run("git", "tag", "--list", f"v{version}", cwd=tree):
        raise ReleaseError(f"The tag v{version} exists. Choose a later version.")
    evidence.write(tree, evidence.read(tree))
    # It rejects a version that is not later than the current one.
    run(sys.executable, "-m", "hatchling", "version", version, cwd=tree)
    changelog = tree / CHANGELOG
    changelog.write_text(released(changelog.read_text(), version, f"{datetime.now(UTC):%Y-%m-%d}"))
    shutil.copy(tree / STORED_FORMS, tree / STORED_FORMS.replace("unreleased", version))
    run("git", "add", "--all", cwd=tree)
    # Hooks would install their tools into this temporary tree.
    run("git", "commit", "--quiet", "--no-verify", "--message", f"Release {version}", cwd=tree)
    return run("git", "rev-parse", "HEAD", cwd=tree)


def epoch(tree: Path) -> str:
    """Time of the current commit, in seconds since 1970: the ``SOURCE_DATE_EPOCH`` of a build."""
    return run("git", "log", "-1", "--format=%ct", cwd=tree)


def build(tree: Path, folder: Path) -> dict[str, str]:
    """
    Build sdist and wheel of a working tree, with the pinned backend of this environment.

    :param folder: where to put them.
    :return: file names and SHA-256 sums.
    :raises ReleaseError: the build failed.
    """
    command = [sys.executable, "-m", "hatchling", "build", "--directory", folder]
    run(*command, cwd=tree, SOURCE_DATE_EPOCH=epoch(tree))
    return sums(folder)


def sums(folder: Path) -> dict[str, str]:
    """The SHA-256 sums of the files of a folder, by file name."""
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.iterdir())}


def prepare(repository: Path, version: str, to: Path) -> None:
    """
    Prepare a release: see the beginning of this module.

    :param version: such as ``1.2.3`` or ``1.2.3rc1``.
    :param to: folder that gets sdist and wheel, in place of what it has.
    :raises ReleaseError: a check failed; then nothing was changed.
    """
    if changes := run("git", "status", "--porcelain", cwd=repository):
        raise ReleaseError(f"Commit, stash or remove these files first:\n{changes}")
    if faults := evidence.faults(repository):
        raise ReleaseError("\n".join([f"{evidence.PAGE} lacks these (make evidence):", *faults]))
    with working_tree(repository) as tree, tempfile.TemporaryDirectory(prefix="release-") as folder:
        dist = Path(folder) / "dist"
        commit = commit_version(tree, version)
        built = build(tree, dist)
        with working_tree(repository, commit) as again:
            if build(again, Path(folder) / "again") != built:
                raise ReleaseError("Two builds of one commit differ: not reproducible.")
        print("two builds in two folders are identical")
        run(sys.executable, "-m", "twine", "check", "--strict", *sorted(dist.iterdir()), cwd=tree)
        run("git", "merge", "--quiet", "--ff-only", commit, cwd=repository)
        shutil.rmtree(to, ignore_errors=True)
        shutil.copytree(dist, to)
    for name, digest in built.items():
        print(f"{digest}  {to.name}/{name}")


def main(arguments: list[str]) -> int:
    """Prepare a release; return 0, or 1 if a check failed."""
    parser = argparse.ArgumentParser(prog="make release", description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("version", help="such as 1.2.3 or 1.2.3rc1")
    parser.add_argument("--to", default="dist", type=Path, help="folder for sdist and wheel")
    options = parser.parse_args(arguments)
    try:
        prepare(Path.cwd(), **vars(options))
        branch = run("git", "rev-parse", "--abbrev-ref", "HEAD", cwd=Path.cwd())
        print(NEXT_STEPS.format(branch=branch, version=options.version))
    except ReleaseError as error:
        print(f"No release was prepared, and nothing was changed. {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
