"""
``make release VERSION=x.y.z``: prepare a release in this repository, and change no remote.

Everything is done in a temporary working tree of the current commit: version and changelog are changed and
committed there, sdist and wheel are built twice and compared, checked as a package index checks them, and
installed from the sdist into a fresh environment. Only if all of this succeeds, ``dist`` gets the files and
the current branch the commit. The steps that are left, the tag and the push, are printed.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import venv
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version as version_of
from pathlib import Path

from packaging.version import Version

PROJECT = "airflow-provider-workflow"
PACKAGE = "airflow_provider_workflow"
VERSION_FILE = f"{PACKAGE}/__init__.py"
CHANGELOG = "CHANGELOG.md"
UNRELEASED = "## Unreleased"
STORED_FORMS = "tests/unit/stored/unreleased.json"
PLACEHOLDER = ".invalid/"
"""In ``[project.urls]`` until the project has public URLs; a reserved name."""
BUILD_SECONDS = 300
INSTALL_SECONDS = 1200
_FORM = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)((a|b|rc)[1-9]\d*)?")
_ASSIGNED = re.compile(r'^__version__ = "([^"]*)"$', re.MULTILINE)
_RELATIVE_LINK = re.compile(r"\]\((?!https?://|mailto:|#)([^)]*)\)")
_IMPORTS = """
import importlib, sys, {package}
from {package}.get_provider_info import get_provider_info
assert {package}.__version__ == {version!r}, {package}.__version__
assert {package}.__file__.startswith(sys.prefix), {package}.__file__
get_provider_info()
for name in ("decorators", "hooks.workflow", "operators.inbox", "sensors.inbox", "triggers.inbox"):
    importlib.import_module(f"{package}.{{name}}")
"""


class ReleaseError(Exception):
    """The release cannot be prepared; the text says why, and how to fix it. Nothing was changed."""


# Texts


def check_version(version: str, current: str, tags: Collection[str]) -> None:
    """
    Check a new version: its form, its order, and that it was not released yet.

    :param version: such as ``1.2.3`` or ``1.2.3rc1``.
    :param current: the version that the package has now.
    :param tags: all tags of the repository.
    :raises ReleaseError: it cannot be the next version.
    """
    if not _FORM.fullmatch(version):
        raise ReleaseError(f"VERSION must be of the form 1.2.3 or 1.2.3rc1, not {version!r}.")
    if f"v{version}" in tags:
        raise ReleaseError(f"The tag v{version} exists. Choose a later version.")
    if Version(version) <= Version(current):
        raise ReleaseError(f"VERSION must be later than the current version, {current}, not {version}.")


def current_version(text: str) -> str:
    """
    The version in the text of the package's first module.

    :raises ReleaseError: it is not assigned there exactly once.
    """
    found = _ASSIGNED.findall(text)
    if len(found) != 1:
        raise ReleaseError(f'{VERSION_FILE} must have one line __version__ = "...", not {len(found)}.')
    return str(found[0])


def with_version(text: str, version: str) -> str:
    """The text of the package's first module, with another version."""
    return _ASSIGNED.sub(f'__version__ = "{version}"', text)


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
    return f"{before}{heading}\n## {version} ({date})\n{rest}"


def relative_links(metadata: str) -> list[str]:
    """Links of a long description that lead nowhere on the page of a package index."""
    return _RELATIVE_LINK.findall(metadata)


# The repository


def run(command: list[str], cwd: Path, seconds: float = 60, env: Mapping[str, str] | None = None) -> str:
    """
    Run a command, and return what it prints.

    :param seconds: time limit.
    :param env: additional environment variables.
    :raises ReleaseError: it failed, or the time limit was exceeded; the text has its output.
    """
    try:
        done = subprocess.run(
            command,
            cwd=cwd,
            env={**os.environ, **(env or {})},
            timeout=seconds,
            check=False,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
    except subprocess.TimeoutExpired:
        raise ReleaseError(f"{' '.join(command)} took longer than {seconds:g} s.") from None
    if done.returncode != 0:
        raise ReleaseError(f"{' '.join(command)} failed with code {done.returncode}:\n{done.stdout.strip()}")
    return done.stdout


@dataclass(frozen=True)
class Repository:
    """
    A working tree of git.

    :param root: its folder.
    """

    root: Path

    def git(self, *arguments: str) -> str:
        """
        Run git.

        :raises ReleaseError: it failed.
        """
        return run(["git", *arguments], self.root).strip()

    def check_clean(self) -> None:
        """:raises ReleaseError: there are changes that are not committed, or files that are not tracked."""
        if changes := self.git("status", "--porcelain"):
            raise ReleaseError(f"Commit, stash or remove these files first:\n{changes}")

    def check_replaceable(self, folder: Path) -> None:
        """:raises ReleaseError: the folder holds this repository, or files that are tracked."""
        folder = folder.resolve()
        root = self.root.resolve()
        if folder in (root, *root.parents) or (
            folder.is_relative_to(root) and self.git("ls-files", "--", str(folder))
        ):
            raise ReleaseError(
                f"DIST is replaced, so it cannot be {folder}. Name a folder for the files alone."
            )

    def tags(self) -> set[str]:
        """All tags of this repository; those that only a remote has are unknown."""
        return set(self.git("tag", "--list").splitlines())

    def epoch(self) -> str:
        """Time of the current commit, in seconds since 1970: the ``SOURCE_DATE_EPOCH`` of a build."""
        return self.git("log", "-1", "--format=%ct")

    @contextmanager
    def tree(self, commit: str = "HEAD") -> Iterator[Repository]:
        """A temporary working tree of a commit; it is removed at the end."""
        with tempfile.TemporaryDirectory(prefix="release-") as folder:
            path = Path(folder).resolve() / "tree"
            self.git("worktree", "add", "--quiet", "--detach", str(path), commit)
            try:
                yield Repository(path)
            finally:
                self.git("worktree", "remove", "--force", str(path))

    def commit_version(self, version: str, date: str) -> str:
        """
        Set the version and the changelog, keep what this version stores in databases, and commit.

        :return: the id of the commit.
        :raises ReleaseError: the version or the changelog is not as expected.
        """
        for name, change in self._changes(version, date).items():
            (self.root / name).write_text(change, encoding="utf-8")
            self.git("add", name)
        # Hooks would install their tools into this temporary tree.
        self.git("commit", "--quiet", "--no-verify", "--message", f"Release {version}")
        return self.git("rev-parse", "HEAD")

    def _changes(self, version: str, date: str) -> dict[str, str]:
        texts = {name: (self.root / name).read_text(encoding="utf-8") for name in (VERSION_FILE, CHANGELOG)}
        check_version(version, current_version(texts[VERSION_FILE]), self.tags())
        return {
            VERSION_FILE: with_version(texts[VERSION_FILE], version),
            CHANGELOG: released(texts[CHANGELOG], version, date),
            STORED_FORMS.replace("unreleased", version): (self.root / STORED_FORMS).read_text("utf-8"),
        }


# The distribution


def build(tree: Repository, folder: Path) -> dict[str, str]:
    """
    Build sdist and wheel of a working tree, with the pinned backend of this environment.

    :param folder: where to put them.
    :return: file names and SHA-256 sums.
    :raises ReleaseError: the build failed.
    """
    command = [sys.executable, "-m", "hatchling", "build", "--directory", str(folder)]
    run(command, tree.root, BUILD_SECONDS, {"SOURCE_DATE_EPOCH": tree.epoch()})
    return sums(folder)


def sums(folder: Path) -> dict[str, str]:
    """The SHA-256 sums of the files of a folder, by file name."""
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.iterdir())}


def check_same(first: Mapping[str, str], second: Mapping[str, str]) -> None:
    """:raises ReleaseError: two builds of one commit differ."""
    if first != second:
        differ = sorted(name for name in {*first, *second} if first.get(name) != second.get(name))
        raise ReleaseError(f"Two builds of one commit differ in {', '.join(differ)}: not reproducible.")


def check_metadata(folder: Path) -> None:
    """
    Check what a package index checks: the metadata, and that it can render the long description.

    :raises ReleaseError: it would be rejected, or a link of the long description is relative.
    """
    files = [str(path) for path in sorted(folder.iterdir())]
    run([sys.executable, "-m", "twine", "check", "--strict", *files], folder, BUILD_SECONDS)
    links = relative_links(_metadata(sdist_of(folder)))
    if links:
        raise ReleaseError(f"Links of the long description are relative (hatch_build.py): {links[:5]}")


def sdist_of(folder: Path) -> Path:
    """The sdist in a folder."""
    return next(folder.glob("*.tar.gz"))


def _metadata(sdist: Path) -> str:
    with tarfile.open(sdist) as archive:
        member = archive.extractfile(f"{sdist.name.removesuffix('.tar.gz')}/PKG-INFO")
        assert member is not None
        return member.read().decode()


def pins(root: Path) -> Path:
    """The constraints file with which this environment was installed."""
    airflow = ".".join(version_of("apache-airflow").split(".")[:2])
    return root / f"constraints/airflow-{airflow}.txt"


def check_installation(sdist: Path, version: str, constraints: Path, folder: Path) -> Path:
    """
    Install the sdist and all that it needs into a fresh environment, and import the package there.

    :param constraints: the pins.
    :param folder: of the environment, which is created.
    :return: the interpreter of the environment.
    :raises ReleaseError: the installation or an import failed.
    """
    venv.create(folder, with_pip=True, symlinks=True)
    python = folder.resolve() / "bin/python"
    pip = [str(python), "-m", "pip", "--quiet", "--disable-pip-version-check", "install"]
    run([*pip, "--constraint", str(constraints), str(sdist)], folder, INSTALL_SECONDS)
    code = _IMPORTS.format(package=PACKAGE, version=version)
    run([str(python), "-I", "-c", code], folder, BUILD_SECONDS, {"AIRFLOW_HOME": str(folder / "airflow")})
    return python


def write_bill_of_materials(tool: str, python: Path, tree: Repository, target: Path) -> None:
    """
    Write a CycloneDX SBOM of the tested dependencies: those of the fresh environment.

    :param tool: path of ``cyclonedx-py``.
    :param python: interpreter of the environment.
    :raises ReleaseError: the tool failed.
    """
    described = ["--pyproject", str(tree.root / "pyproject.toml"), "--mc-type", "library"]
    command = [tool, "environment", *described, "--output-reproducible", "--output-file", str(target)]
    run([*command, str(python)], tree.root, BUILD_SECONDS, {"SOURCE_DATE_EPOCH": tree.epoch()})


# The steps


@dataclass(frozen=True)
class Options:
    """
    :param version: the new version.
    :param date: of the release, such as ``2026-01-31``.
    :param to: where sdist, wheel and SBOM go; what is there is removed.
    :param sbom: path of ``cyclonedx-py``; empty for no SBOM.
    :param install: whether to install the sdist; the SBOM needs it.
    """

    version: str
    date: str
    to: Path
    sbom: str = ""
    install: bool = True


def prepare(repository: Repository, options: Options, say: Callable[[str], None] = print) -> None:
    """
    Prepare a release: see the beginning of this module.

    :param say: receives a line for each step.
    :raises ReleaseError: a check failed; then nothing was changed.
    """
    repository.check_clean()
    repository.check_replaceable(options.to)
    with repository.tree() as tree, tempfile.TemporaryDirectory(prefix="release-") as name:
        folder = Path(name)
        commit = tree.commit_version(options.version, options.date)
        say(f"{VERSION_FILE} and {CHANGELOG} have the version {options.version}")
        dist = folder / "dist"
        built = build(tree, dist)
        with repository.tree(commit) as again:
            check_same(built, build(again, folder / "again"))
        say("two builds in two folders are identical")
        check_metadata(dist)
        say("a package index would accept the metadata, and can render the long description")
        if options.install:
            _install(tree, options, dist, folder / "environment", say)
        repository.git("merge", "--quiet", "--ff-only", commit)
        shutil.rmtree(options.to, ignore_errors=True)
        shutil.copytree(dist, options.to)
    for line in next_steps(repository, options):
        say(line)


def _install(
    tree: Repository, options: Options, dist: Path, folder: Path, say: Callable[[str], None]
) -> None:
    python = check_installation(sdist_of(dist), options.version, pins(tree.root), folder)
    say("the sdist installs into a fresh environment, and the package can be imported there")
    if options.sbom:
        target = dist / f"{PACKAGE}-{options.version}.cdx.json"
        write_bill_of_materials(options.sbom, python, tree, target)
        say(f"{target.name} lists the dependencies (CycloneDX)")


def next_steps(repository: Repository, options: Options) -> Iterator[str]:
    """What is left to do, and how to undo the commit."""
    yield ""
    for name, digest in sums(options.to).items():
        yield f"{digest}  {options.to.name}/{name}"
    yield ""
    if PLACEHOLDER in (repository.root / "pyproject.toml").read_text(encoding="utf-8"):
        yield "Before you publish: [project.urls] of pyproject.toml are placeholders; set public URLs there."
    tag, branch = f"v{options.version}", repository.git("rev-parse", "--abbrev-ref", "HEAD")
    yield f'The branch {branch} has the commit "Release {options.version}"; no remote was changed. Next:'
    yield "  git show"
    yield f"  git tag --annotate {tag} --message {tag}"
    yield f"  git push --atomic origin {branch} {tag}"
    yield "The push of the tag starts .github/workflows/release.yml, which builds and publishes it."
    yield "To undo it before the push: git reset --hard HEAD~1"


def main(arguments: list[str]) -> int:
    """Prepare a release; return 0, or 1 if a check failed."""
    parser = argparse.ArgumentParser(prog="make release", description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("version", help="such as 1.2.3 or 1.2.3rc1")
    today = datetime.now(UTC).date().isoformat()
    parser.add_argument("--date", default=today, help="date of the release (default: today, UTC)")
    parser.add_argument("--to", default="dist", type=Path, help="folder for sdist, wheel and SBOM")
    parser.add_argument("--sbom", default="", help="path of cyclonedx-py; without it no SBOM is written")
    parser.add_argument("--no-install", dest="install", action="store_false", help="install nothing")
    given = parser.parse_args(arguments)
    try:
        prepare(Repository(Path.cwd()), Options(**vars(given)))
    except ReleaseError as error:
        print(f"No release was prepared, and nothing was changed. {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
