"""
An Airflow of its own for a test session: the pytest plugin gives it one if the user has not configured any.

Airflow reads ``AIRFLOW_HOME`` when it is imported, which test modules and conftest files do while pytest
collects them. So the decision is made before: from the text of these files.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

import pytest

FIXTURE = b"workflow_emulator"
DATABASE = "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"
CONFIGURED = ("AIRFLOW_HOME", "AIRFLOW_CONFIG", DATABASE, f"{DATABASE}_CMD", f"{DATABASE}_SECRET")
"""Environment variables of which one is enough for an Airflow that the user has configured."""
PRIVATE = "WORKFLOW_PYTEST_AIRFLOW_HOME"
"""The private ``AIRFLOW_HOME`` of this process or its parent: processes of pytest-xdist inherit both."""


class PrivateAirflow:
    """A folder for Airflow's files, and the environment variables that lead to it, until it is removed."""

    def __init__(self, root: Path) -> None:
        """
        :param root: of the project. If it has a folder ``dags``, that is the DAGs folder.
        """
        self.home = Path(tempfile.mkdtemp(prefix="airflow-home-"))
        self._environment = pytest.MonkeyPatch()
        self._environment.setenv("AIRFLOW_HOME", str(self.home))
        self._environment.setenv(PRIVATE, str(self.home))
        self._set_default("AIRFLOW__CORE__LOAD_EXAMPLES", "False")
        if (root / "dags").is_dir():
            self._set_default("AIRFLOW__CORE__DAGS_FOLDER", str(root / "dags"))

    def _set_default(self, name: str, value: str) -> None:
        if name not in os.environ:
            self._environment.setenv(name, value)

    def create_tables(self) -> None:
        """
        Create the tables of its database, which takes some seconds.

        :raises RuntimeError: the command failed; the text has the end of its output.
        """
        command = [sys.executable, "-m", "airflow", "db", "migrate"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            output = (done.stdout + done.stderr)[-2000:]
            raise RuntimeError(f"airflow db migrate failed with the private AIRFLOW_HOME:\n{output}")

    def remove(self) -> None:
        """Remove the folder, and restore the environment."""
        self._environment.undo()
        shutil.rmtree(self.home, ignore_errors=True)


def is_configured() -> bool:
    """Whether the user has chosen an Airflow with environment variables."""
    private = os.environ.get(PRIVATE)
    return any(name in os.environ and os.environ[name] != private for name in CONFIGURED)


def is_wanted(config: pytest.Config) -> bool:
    """Whether a test module or a conftest file that this session may load names the fixture."""
    return any(FIXTURE in _content(path) for path in _files(config))


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        # pytest reports it.
        return b""


def _files(config: pytest.Config) -> Iterator[Path]:
    """The conftest files and test modules below the arguments of pytest, and conftest files above them."""
    given = config.known_args_namespace.file_or_dir
    folder = config.invocation_params.dir
    if not given and folder == config.rootpath:
        given = config.getini("testpaths")
    for argument in given or ["."]:
        path = Path(os.path.abspath(folder / argument.partition("::")[0]))
        above = (each / "conftest.py" for each in path.parents if each.is_relative_to(config.rootpath))
        yield from (each for each in above if each.is_file())
        if path.is_file():
            yield path
        yield from _files_below(path, ["conftest.py", *config.getini("python_files")], config)


def _files_below(top: Path, names: list[str], config: pytest.Config) -> Iterator[Path]:
    left_out = config.getini("norecursedirs")
    for folder, folders, files in os.walk(top):
        folders[:] = [each for each in folders if not any(fnmatch(each, pattern) for pattern in left_out)]
        if "pyvenv.cfg" in files:
            folders.clear()
            continue
        yield from (Path(folder, each) for each in files if any(fnmatch(each, name) for name in names))
