"""The environment and the database of a private Airflow."""

from __future__ import annotations

import base64
import json
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

DATABASE = "airflow.db"
QUICK = {
    "AIRFLOW__DAG_PROCESSOR__BUNDLE_REFRESH_CHECK_INTERVAL": "1",
    "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "10",
    "AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL": "3",
    "AIRFLOW__SCHEDULER__TRIGGER_TIMEOUT_CHECK_INTERVAL": "2",
    # The end of a task is sometimes detected this late: 5 s for every third task.
    "AIRFLOW__WORKERS__MIN_HEARTBEAT_INTERVAL": "1",
}
"""Shorter intervals for Airflow: they change when it checks something, not what it does."""


def environment(home: Path, dags_folder: Path, port: int, connections: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of Airflow's processes: the caller's, without its Airflow settings."""
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "_AIRFLOW"))
    }
    no_proxy = f"{inherited.get('no_proxy') or inherited.get('NO_PROXY') or ''},localhost,127.0.0.1"
    return {
        **inherited,
        "NO_PROXY": no_proxy,
        "no_proxy": no_proxy,
        "OBJC_DISABLE_INITIALIZE_FORK_SAFETY": "YES",  # otherwise macOS ends forked task processes
        "PYTHONUNBUFFERED": "1",
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__API__BASE_URL": f"http://localhost:{port}",
        "AIRFLOW__API__HOST": "127.0.0.1",
        "AIRFLOW__API__PORT": str(port),
        "AIRFLOW__API__WORKERS": "1",
        "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
        "AIRFLOW__CORE__DAGS_FOLDER": str(dags_folder),
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"http://localhost:{port}/execution/",
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
        **_secrets(home / "secrets.json"),
        **{f"AIRFLOW_CONN_{name.upper()}": value for name, value in connections.items()},
    }


def _secrets(path: Path) -> dict[str, str]:
    """Return random keys, kept with the database that they encrypt."""
    keys = {
        "AIRFLOW__API_AUTH__JWT_SECRET": secrets.token_hex(32),
        "AIRFLOW__API__SECRET_KEY": secrets.token_hex(16),
        "AIRFLOW__CORE__FERNET_KEY": base64.urlsafe_b64encode(secrets.token_bytes(32)).decode(),
    }
    if not path.exists():
        path.touch(mode=0o600)
        path.write_text(json.dumps(keys))
    return dict(json.loads(path.read_text()))


def sqlite(home: Path, seconds: int = 20) -> str:
    """
    Return the address of a home's own database.

    :param seconds: how long a writer waits for another, before Airflow fails what it did.
    """
    return f"sqlite:///{home}/{DATABASE}?timeout={seconds}"


def create_database(python: str, home: Path, env: Mapping[str, str]) -> None:
    """
    Migrate the database, unless SQLite has one already. A migrated SQLite file is kept for each version of
    Airflow and each user, which saves some 5 s the next time.
    """
    # Four processes starting at once would race to write a default file.
    (home / "airflow.cfg").touch()
    if env["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"] != sqlite(home):
        _migrate(python, env)
        return
    database = home / DATABASE
    cache = Path(tempfile.gettempdir()) / f"local-airflow-{os.getuid()}"
    migrated = cache / f"{version('apache-airflow-core')}.db"
    is_ours = python == sys.executable
    if is_ours and migrated.exists() and not database.exists():
        shutil.copyfile(migrated, database)
    elif not database.exists():
        _migrate(python, env)
        if is_ours:
            cache.mkdir(mode=0o700, exist_ok=True)
            copy = shutil.copyfile(database, cache / f"{os.getpid()}.db")
            copy.replace(migrated)  # atomic: another process may be doing the same


def _migrate(python: str, env: Mapping[str, str]) -> None:
    command = [python, "-m", "airflow", "db", "migrate"]
    process = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    if process.returncode:
        raise RuntimeError(f"airflow db migrate failed:\n{process.stdout[-3000:]}\n{process.stderr[-3000:]}")
