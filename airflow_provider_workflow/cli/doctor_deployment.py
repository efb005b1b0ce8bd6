"""Checks of ``doctor``: triggerers and DAGs in the metadata database, Airflow's version and configuration."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from typing import TYPE_CHECKING

from airflow_provider_workflow import airflow_internals, clock
from airflow_provider_workflow.cli import output
from airflow_provider_workflow.cli.doctor_findings import FAILED, OK, SKIPPED, WARNING, Finding, Subject
from airflow_provider_workflow.database import dag_runs
from airflow_provider_workflow.database.inbox_uses import (
    TRIGGERS,
    DeployedDag,
    InboxUse,
    deployed,
    inbox_uses,
)
from airflow_provider_workflow.triggers.inbox import settle_seconds

if TYPE_CHECKING:
    from airflow_provider_workflow import types


SEE_IMPORT_ERRORS = "correct the DAG file; airflow dags list-import-errors shows the errors"


def database(_: Subject) -> Iterator[Finding]:
    try:
        airflow_internals.check_database()
    except Exception as error:
        # Only the type: the text may quote the database's URL with its password. Not a failure:
        # workers, for instance, have no access to the database.
        detail = f"Airflow's metadata database cannot be read from here: {type(error).__name__}"
        fix = "to examine the triggerer and the DAGs, run doctor where airflow db check succeeds"
        yield Finding("database", SKIPPED, detail, fix)
    else:
        yield Finding("database", OK, "Airflow's metadata database can be read")


def triggerer(_: Subject) -> Iterator[Finding]:
    alive, seconds = _heartbeats()
    last = "none has ever used this database"
    if seconds is not None:
        last = f"the last heartbeat is {output.duration(seconds)} old"
    if alive:
        yield Finding("triggerer", OK, f"{alive} triggerer{' is' if alive == 1 else 's are'} alive; {last}")
        return
    detail, waiting = f"no triggerer is alive: {last}", airflow_internals.count_triggers(TRIGGERS)
    if waiting:
        detail += f"; {waiting} trigger{'s' if waiting > 1 else ''} of this provider cannot run"
        yield Finding("triggerer", FAILED, detail, "start one: airflow triggerer")
    else:
        fix = "start one (airflow triggerer): deferred sensors and asset watchers run in it"
        yield Finding("triggerer", WARNING, detail, fix)


def _heartbeats() -> tuple[int, float | None]:
    """The number of triggerers that are alive, and the age of the latest heartbeat in seconds."""
    from airflow.configuration import conf

    now = datetime.fromtimestamp(clock.now(), UTC)
    threshold = conf.getfloat("triggerer", "triggerer_health_check_threshold", fallback=30.0)
    jobs = airflow_internals.heartbeats("triggerer")
    beats = [((now - beat).total_seconds(), state) for beat, state, _ in jobs]
    alive = sum(state == "running" and seconds <= threshold for seconds, state in beats)
    return alive, min((seconds for seconds, _ in beats), default=None)


MOST_CLOCK_SKEW = timedelta(seconds=30)


def clocks(_: Subject) -> Iterator[Finding]:
    """Report what the machines of Airflow wrote with a clock that is ahead of this one."""
    now = datetime.fromtimestamp(clock.now(), UTC)
    synchronize = "synchronize the clocks of all machines (NTP), this one included"
    for process in ("triggerer", "scheduler"):
        for beat, state, host in airflow_internals.heartbeats(process):
            if state == "running" and beat - now > MOST_CLOCK_SKEW:
                ahead = output.duration((beat - now).total_seconds())
                detail = f"the last heartbeat of the {process} on {host} is {ahead} in the future"
                fix = f"{synchronize}; Airflow takes it for alive until then, even if it has ended"
                yield Finding("clocks", WARNING, detail, fix)
    with airflow_internals.database_session() as session:
        queued = dag_runs.queued_for_later(session, now + MOST_CLOCK_SKEW)
    for dag_id, (count, run_after) in queued.items():
        wait = output.duration((run_after - now).total_seconds())
        fix = (
            f"{synchronize}: the clock of a triggerer was ahead when it made the asset event."
            f" To start a run now: airflow dags trigger {shlex.quote(dag_id)}"
        )
        yield Finding(
            "clocks", WARNING, f"queued runs of {dag_id}: {count}, of which the first starts in {wait}", fix
        )


def dags(subject: Subject) -> Iterator[Finding]:
    with airflow_internals.database_session() as session:
        uses = [use for use in inbox_uses(session) if _concerns(subject, use)]
        listeners = [deployed(dag_id, session) for dag_id in _listener_ids(subject, uses)]
        targets = [deployed(dag_id, session) for dag_id in _target_ids(subject, uses)]
    for dag in listeners:
        yield _listener(dag, [use for use in uses if use.dag_id == dag.dag_id])
    for dag in targets:
        yield _target(dag, [use.dag_id for use in uses if dag.dag_id in use.targets])
    yield from _without_listener(subject, uses, bool(listeners))


def _concerns(subject: Subject, use: InboxUse) -> bool:
    """Whether a use may be one of the examined connection and inbox."""
    if use.conn_id not in (None, subject.conn_id):
        return False
    if subject.inbox is None or use.inbox is None:
        return True
    return use.inbox == subject.inbox or any(use.inbox in _names(inbox) for inbox in subject.inboxes)


def _names(inbox: types.Inbox) -> tuple[str | None, str]:
    return inbox.get("name"), inbox["id"]


def _listener_ids(subject: Subject, uses: list[InboxUse]) -> list[str]:
    return list(dict.fromkeys([*subject.listener_dag_ids, *(use.dag_id for use in uses)]))


def _target_ids(subject: Subject, uses: list[InboxUse]) -> list[str]:
    found = (target for use in uses for target in use.targets)
    return list(dict.fromkeys([*subject.target_dag_ids, *found]))


def _listener(dag: DeployedDag, uses: list[InboxUse]) -> Finding:
    check = f"listener {dag.dag_id}"
    if dag.missing:
        fix = "deploy it, or correct --listener-dag-id; airflow dags list shows all DAGs"
        return Finding(check, FAILED, f"Airflow has no DAG {dag.dag_id!r}", fix)
    if dag.has_import_errors:
        return Finding(check, FAILED, "its file has import errors", SEE_IMPORT_ERRORS)
    if dag.is_paused:
        fix = f"unpause it: airflow dags unpause {shlex.quote(dag.dag_id)}"
        return Finding(check, WARNING, f"paused, so it starts no runs: {_described(uses)}", fix)
    if not uses:
        detail = (
            "unpaused, but without a task or asset watcher of this provider for this connection and inbox"
        )
        fix = "add a WorkflowInboxSensor or a WorkflowInboxDispatchOperator to it, or name another DAG"
        return Finding(check, WARNING, detail, fix)
    return Finding(check, OK, f"unpaused: {_described(uses)}")


def _described(uses: list[InboxUse]) -> str:
    parts = []
    for use in uses:
        starts = f", starts {', '.join(use.targets)}" if use.targets else ""
        parts.append(f"{use.what}, inbox {use.inbox or 'known only at run time'}{starts}")
    return "; ".join(parts) or "it has no task or asset watcher of this provider"


def _target(dag: DeployedDag, started_by: list[str]) -> Finding:
    check = f"target {dag.dag_id}"
    by = f", which {' and '.join(dict.fromkeys(started_by))} would start" if started_by else ""
    if dag.missing:
        where = f"trigger_dag_id of {started_by[0]}" if started_by else "--target-dag-id"
        fix = f"deploy it, or correct {where}"
        return Finding(check, FAILED, f"Airflow has no DAG {dag.dag_id!r}{by}", fix)
    if dag.has_import_errors:
        detail = "its file has import errors, so Airflow starts no run of it"
        return Finding(check, FAILED, detail, SEE_IMPORT_ERRORS)
    if dag.is_paused:
        fix = f"unpause it: airflow dags unpause {shlex.quote(dag.dag_id)}"
        return Finding(check, WARNING, "paused: its runs stay queued", fix)
    slots = _slots()
    if dag.shares_slots and slots and (dag.max_active_runs or 0) > slots:
        detail = (
            f"unpaused, but {dag.max_active_runs} of its runs may be active at once (max_active_runs), and a"
            f" scheduler runs {slots} tasks at once ([core] parallelism): tasks of other DAGs may wait for"
            " those of a burst of messages"
        )
        fix = f"lower max_active_runs of {dag.dag_id}, or give its tasks a pool of their own with fewer slots"
        return Finding(check, WARNING, detail, fix)
    return Finding(check, OK, "unpaused")


def _slots() -> int:
    """How many tasks one scheduler runs at once; 0 for any number."""
    from airflow.configuration import conf

    return conf.getint("core", "parallelism", fallback=32)


def _without_listener(subject: Subject, uses: list[InboxUse], any_listener: bool) -> Iterator[Finding]:
    """Report inboxes that no DAG of this Airflow listens to."""
    fix = "deploy a DAG with a WorkflowInboxSensor, unless another consumer leases its messages"
    if not any_listener:
        about = "" if subject.inbox is None else f" and inbox {subject.inbox}"
        detail = f"no DAG of this Airflow uses the connection {subject.conn_id}{about}"
        yield Finding("listeners", WARNING, detail, fix)
        return
    if any(use.inbox is None for use in uses):
        return  # that use may be of any inbox
    listened_to = {use.inbox for use in uses}
    for inbox in subject.inboxes:
        if listened_to.isdisjoint(_names(inbox)):
            name = inbox.get("name") or inbox["id"]
            yield Finding(f"listeners of {name}", WARNING, "no DAG of this Airflow listens to it", fix)


FEATURES = (
    ('acknowledge="auto"', (3, 3)),
    ("WorkflowInboxEventTrigger", (3, 3)),
    ("its marking of redelivered messages after a restart", (3, 3, 2)),
)
"""Features and the version of Airflow that each needs."""
MESSAGING = "airflow.providers.common.messaging"
EVENT_LEASE_SECONDS = 600.0
"""Default of ``lease_seconds`` of ``WorkflowInboxEventTrigger``."""
LONGEST_HEARTBEAT = 5.0
"""Seconds; Airflow's default."""


def version(_: Subject) -> Iterator[Finding]:
    installed = airflow_internals.airflow_version()
    release = tuple(int(number) for number in re.findall(r"\d+", installed)[:3])
    missing = [
        f"{feature} from {'.'.join(map(str, since))}" for feature, since in FEATURES if release < since
    ]
    if missing:
        detail = f"Airflow {installed}, which lacks: {'; '.join(missing)}"
        yield Finding("airflow", WARNING, detail, "update Airflow to use them")
    else:
        yield Finding("airflow", OK, f"Airflow {installed}; it has everything that this provider uses")


def providers(_: Subject) -> Iterator[Finding]:
    if _is_installed(MESSAGING):
        yield Finding(
            "common.messaging", OK, "installed: MessageQueueTrigger supports the scheme workflow-inbox"
        )
    else:
        fix = "for MessageQueueTrigger: pip install apache-airflow-providers-common-messaging"
        yield Finding("common.messaging", WARNING, "not installed; only MessageQueueTrigger needs it", fix)


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # a parent package is missing
        return False


def fernet_key(_: Subject) -> Iterator[Finding]:
    yield fernet_finding()


def fernet_finding() -> Finding:
    """Whether Airflow encrypts connections and Variables."""
    # Not the configuration of the Task SDK, which returns a placeholder for a missing key.
    from airflow.configuration import conf
    from cryptography.fernet import Fernet

    check, keys = "fernet_key", conf.get("core", "fernet_key", fallback="")
    if not keys:
        fix = "set [core] fernet_key, then save connections and Variables again"
        detail = "not set: connections and Variables are stored unencrypted in Airflow's database"
        return Finding(check, WARNING, detail, fix)
    try:
        for key in keys.split(","):
            Fernet(key.encode())
    except ValueError:
        fix = "set [core] fernet_key to a key made by cryptography's Fernet.generate_key()"
        return Finding(check, FAILED, "not a Fernet key (32 bytes in URL-safe base64)", fix)
    return Finding(check, OK, "set: connections and Variables are encrypted in Airflow's database")


def heartbeat(_: Subject) -> Iterator[Finding]:
    seconds = settle_seconds()
    detail = f"a listener that has just begun to wait leases its first message after {seconds:g} s"
    if seconds <= LONGEST_HEARTBEAT + 1:
        yield Finding("heartbeat", OK, detail)
    else:
        yield Finding("heartbeat", WARNING, detail, "set [workers] min_heartbeat_interval to 5 s or less")


def ack_timeout(_: Subject) -> Iterator[Finding]:
    from airflow.providers.common.compat.sdk import conf

    if airflow_internals.airflow_release() < (3, 3):
        return
    seconds = conf.getfloat("triggerer", "shared_stream_ack_timeout", fallback=300.0)
    if seconds < EVENT_LEASE_SECONDS:
        detail = (
            f"{seconds:g} s, less than the {EVENT_LEASE_SECONDS:g} s of a lease of WorkflowInboxEventTrigger"
        )
        yield Finding("ack_timeout", OK, detail)
    else:
        detail = f"{seconds:g} s: WorkflowInboxEventTrigger rejects leases that are not longer than that"
        fix = (
            f"set [triggerer] shared_stream_ack_timeout to less than {EVENT_LEASE_SECONDS:g} s,"
            " or lease_seconds of the trigger to more"
        )
        yield Finding("ack_timeout", WARNING, detail, fix)
