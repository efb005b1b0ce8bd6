"""What ``doctor`` finds out of this Airflow: what its version allows, and settings that matter to us."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import metadata
from importlib.util import find_spec

from airflow_provider_workflow import versions
from airflow_provider_workflow.cli.doctor_findings import FAILED, OK, WARNING, Finding, Subject
from airflow_provider_workflow.triggers.patience import settle_seconds

FEATURES = (
    ("the commands as 'airflow workflow' (airflow-workflow has them all)", (3, 2)),
    ('acknowledge="auto"', (3, 3)),
    ("start_from_trigger", (3, 3)),
    ("WorkflowInboxEventTrigger", (3, 3)),
    ("what that trigger emitted being known after a restart", (3, 3, 2)),
)
"""What needs which version of Airflow."""
MESSAGING = "airflow.providers.common.messaging"
EVENT_LEASE_SECONDS = 600.0
"""The lease of ``WorkflowInboxEventTrigger`` where a DAG names no other."""
LONGEST_HEARTBEAT = 5.0
"""Seconds: the interval that Airflow has by itself."""


def version(_: Subject) -> Iterator[Finding]:
    installed = versions.airflow_version()
    release = tuple(int(number) for number in re.findall(r"\d+", installed)[:3])
    missing = [
        f"{feature} from {'.'.join(map(str, since))}" for feature, since in FEATURES if release < since
    ]
    if missing:
        detail = f"Airflow {installed}, which is without: {'; '.join(missing)}"
        yield Finding("airflow", WARNING, detail, "update Airflow, if you want these")
    else:
        yield Finding("airflow", OK, f"Airflow {installed}, which has all that this provider uses")


def fastapi(_: Subject) -> Iterator[Finding]:
    """Of a pair that pip resolves with Airflow 3.1.0 alone, and that a forced update of FastAPI can make."""
    try:
        installed = metadata.version("fastapi")
    except metadata.PackageNotFoundError:  # no API server runs from here
        return
    if versions.answers_before_commit(installed):
        detail = (
            f"FastAPI {installed} lets Airflow {versions.airflow_version()} confirm a DAG run before it is"
            " committed: where the API server is killed in between, an acknowledged message has no run"
        )
        cure = "for the API server: pip install 'fastapi<0.118', or update Airflow to 3.2 or later"
        yield Finding("fastapi", FAILED, detail, cure)


def providers(_: Subject) -> Iterator[Finding]:
    if _is_installed(MESSAGING):
        yield Finding("common.messaging", OK, "installed: MessageQueueTrigger takes workflow-inbox")
    else:
        cure = "for MessageQueueTrigger: pip install apache-airflow-providers-common-messaging"
        yield Finding("common.messaging", WARNING, "not installed, and needed by nothing else", cure)


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # nor is what it would stand in
        return False


def fernet_key(_: Subject) -> Iterator[Finding]:
    yield fernet_finding()


def fernet_finding() -> Finding:
    """Whether Airflow encrypts connections and Variables."""
    # Not the configuration of the Task SDK, which gives a placeholder for a key that is not set.
    from airflow.configuration import conf
    from cryptography.fernet import Fernet

    check, keys = "fernet_key", conf.get("core", "fernet_key", fallback="")
    if not keys:
        cure = "set [core] fernet_key, then save connections and Variables once more"
        detail = "not set: connections and Variables lie in clear in Airflow's database"
        return Finding(check, WARNING, detail, cure)
    try:
        for key in keys.split(","):
            Fernet(key.encode())
    except ValueError:
        cure = "set [core] fernet_key to what cryptography's Fernet.generate_key() gives"
        return Finding(check, FAILED, "it is no Fernet key: 32 bytes in URL-safe base64", cure)
    return Finding(check, OK, "set: connections and Variables are encrypted in Airflow's database")


def heartbeat(_: Subject) -> Iterator[Finding]:
    settled = settle_seconds()
    detail = f"a listener that has just begun to wait takes its first message after {settled:g} s"
    if settled <= LONGEST_HEARTBEAT + 1:
        yield Finding("heartbeat", OK, detail)
    else:
        yield Finding("heartbeat", WARNING, detail, "shorten [workers] min_heartbeat_interval to 5 s or less")


def ack_timeout(_: Subject) -> Iterator[Finding]:
    from airflow.providers.common.compat.sdk import conf

    if versions.airflow_release() < (3, 3):
        return
    seconds = conf.getfloat("triggerer", "shared_stream_ack_timeout", fallback=300.0)
    if seconds < EVENT_LEASE_SECONDS:
        detail = (
            f"{seconds:g} s, within the {EVENT_LEASE_SECONDS:g} s of a lease of WorkflowInboxEventTrigger"
        )
        yield Finding("ack_timeout", OK, detail)
    else:
        detail = f"{seconds:g} s: WorkflowInboxEventTrigger refuses leases that are not longer than that"
        cure = (
            f"set [triggerer] shared_stream_ack_timeout below its {EVENT_LEASE_SECONDS:g} s,"
            " or its lease_seconds above"
        )
        yield Finding("ack_timeout", WARNING, detail, cure)
