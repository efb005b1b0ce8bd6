"""The environment and the database of a private Airflow."""

from __future__ import annotations

import base64
import json
import os
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

DATABASE = "airflow.db"
QUICK = {
    "AIRFLOW__DAG_PROCESSOR__BUNDLE_REFRESH_CHECK_INTERVAL": "1",
    "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "10",
    "AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL": "3",
    "AIRFLOW__SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "0.3",
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
    no_proxy = ",".join(
        filter(None, [inherited.get("no_proxy") or inherited.get("NO_PROXY"), "localhost,127.0.0.1"])
    )
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
    if not path.exists():
        keys = {
            "AIRFLOW__API_AUTH__JWT_SECRET": secrets.token_hex(32),
            "AIRFLOW__API__SECRET_KEY": secrets.token_hex(16),
            "AIRFLOW__CORE__FERNET_KEY": base64.urlsafe_b64encode(secrets.token_bytes(32)).decode(),
        }
        path.touch(mode=0o600)
        path.write_text(json.dumps(keys))
    kept: dict[str, str] = json.loads(path.read_text())
    return kept


def require_login(home: Path) -> tuple[dict[str, str], tuple[str, str]]:
    """Return the settings with which users must log in, and name and password of the only user, an admin."""
    username, password = "admin", secrets.token_hex(8)
    path = home / "passwords.json"
    path.touch(mode=0o600)
    path.write_text(json.dumps({username: password}))
    settings = {
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "False",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": f"{username}:admin",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(path),
    }
    return settings, (username, password)


def sqlite(home: Path, seconds: int = 20) -> str:
    """
    Return the address of a home's own database.

    :param seconds: how long a writer waits for another, before Airflow fails what it did.
    """
    return f"sqlite:///{home}/{DATABASE}?timeout={seconds}"


def of_process(name: str, home: Path, env: Mapping[str, str]) -> dict[str, str]:
    """
    Return the environment of one process, by its name, made of that of all.

    The API server waits for SQLite the usual 5 s. It writes its audit log in its event loop: where another of
    its requests has the lock, and needs the event loop to commit, both wait for as long as that lasts.
    """
    own = {}
    if name == "api-server" and env["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"] == sqlite(home):
        own["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"] = sqlite(home, seconds=5)
    return {**env, **own}


def create_database(python: str, home: Path, env: Mapping[str, str]) -> None:
    """Migrate the database, or copy a migrated SQLite file, which saves some 5 s."""
    # Four processes starting at once would race to write a default file.
    (home / "airflow.cfg").touch()
    database = home / DATABASE
    if env["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"] != sqlite(home):
        _migrate(python, env)
    elif not database.exists():
        shutil.copyfile(_migrated(python, env), database)


def _migrated(python: str, env: Mapping[str, str]) -> Path:
    """Return a migrated, empty SQLite file, made once for each version of Airflow and each user."""
    version = subprocess.run(
        [python, "-c", "from importlib.metadata import version; print(version('apache-airflow-core'))"],
        env=env, check=True, capture_output=True, text=True,
    ).stdout.strip()  # fmt: skip
    cache = Path(tempfile.gettempdir()) / f"local-airflow-{os.getuid()}"
    cache.mkdir(mode=0o700, exist_ok=True)
    database = cache / f"{version}.db"
    if not database.exists():
        with tempfile.TemporaryDirectory(dir=cache) as home:
            settings = {"AIRFLOW_HOME": home, "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": sqlite(Path(home))}
            _migrate(python, {**env, **settings})
            (Path(home) / DATABASE).replace(database)  # atomic: another process may be doing the same
    return database


def _migrate(python: str, env: Mapping[str, str]) -> None:
    done = subprocess.run(
        [python, "-m", "airflow", "db", "migrate"], env=env, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"airflow db migrate failed:\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
