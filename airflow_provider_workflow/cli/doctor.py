"""``doctor``: examines connections, their inboxes and the DAGs that use them."""

from __future__ import annotations

import shlex
from argparse import Namespace
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

from airflow.configuration import conf
from airflow.providers.common.compat.sdk import AirflowNotFoundException

from airflow_provider_workflow import airflow_internals, clock, types
from airflow_provider_workflow.cli import output
from airflow_provider_workflow.cli.common import Exit
from airflow_provider_workflow.client import inboxes
from airflow_provider_workflow.client.advice import INBOX_SCOPE, SCOPE_FIX, reason_of
from airflow_provider_workflow.client.errors import ConfigurationError, LoginRequiredError, WorkflowError
from airflow_provider_workflow.client.settings import EXTRA_FIELDS
from airflow_provider_workflow.database.inbox_uses import TRIGGERS_PREFIX, InboxUse, inbox_uses
from airflow_provider_workflow.dispatch.delivery import delivery_count
from airflow_provider_workflow.dispatch.payload_store import PayloadStore, PayloadStoreError
from airflow_provider_workflow.findings import (
    FAILED,
    OK,
    SEE_IMPORT_ERRORS,
    SKIPPED,
    WARNING,
    Finding,
    command,
    dag_findings,
    meant,
    missing_inbox,
    missing_inboxes,
    names_of,
    needed_dags,
    no_listener,
    several_listeners,
)
from airflow_provider_workflow.hooks.workflow import DEFAULT_CONN_ID, WorkflowHook
from airflow_provider_workflow.source import problem_of
from airflow_provider_workflow.text import counted, escaped

STYLES = {FAILED: "bold red", WARNING: "yellow", SKIPPED: "dim", OK: "green"}
"""The statuses of findings in the order of the output, and their colors."""
LOCAL = ("localhost", "127.0.0.1", "::1")
MAX_LINE_LENGTH = 1000
MAX_EXAMINED_INBOXES = 50
MAX_EXAMINED_PAGES = 50
"""Maximum number of pages that are read of one inbox."""
HIGH_DELIVERY_COUNT = 3
OTHER_STATES = {
    "initializing": "run doctor again if it takes longer than a few minutes",
    "deleting": "nothing, if that is intended; its name is free once it is deleted",
}


@dataclass
class Examination:
    """
    A connection that is examined; checks set ``hook`` and ``inboxes`` for later ones.

    :param inbox: id or name of the only inbox to examine; None for all.
    :param uses: the uses of deployed DAGs that may be of this connection; None if they are unknown.
    """

    conn_id: str
    inbox: str | None = None
    uses: Sequence[InboxUse] | None = None
    hook: WorkflowHook = field(init=False)
    inboxes: list[types.Inbox] | None = None

    def command(self, text: str) -> str:
        """A command for this connection, to be pasted."""
        return command(self.conn_id, text)


@dataclass
class Deployment:
    """
    What is examined of Airflow.

    :param conn_id: the connection that a listener may have meant which names another one.
    :param deployed: all uses of deployed DAGs.
    :param uses: those that may be of an examined connection and inbox.
    :param error: the type of the error with which the deployed DAGs could not be read; "" without one.
    """

    conn_id: str
    deployed: Sequence[InboxUse]
    uses: Sequence[InboxUse] = ()
    error: str = ""


def doctor(args: Namespace) -> int:
    """
    Examine connections and the deployment.

    :return: 0 if no check failed or was skipped.
    """
    findings = sorted(_examine(args), key=lambda finding: list(STYLES).index(finding.status))
    counts = Counter(finding.status for finding in findings)
    if args.output in ("json", "yaml"):
        output.show(args.output, [finding._asdict() for finding in findings])
    else:
        for finding in findings:
            _print(finding)
        warnings = counted(counts[WARNING], "warning")
        skipped = f"{counts[SKIPPED]} skipped, " if counts[SKIPPED] else ""
        output.write(f"{counts[FAILED]} failed, {warnings}, {skipped}{counts[OK]} ok")
    return Exit.FAULT if counts[FAILED] or counts[SKIPPED] else Exit.OK


def _print(finding: Finding) -> None:
    from rich.text import Text

    lines = [f"{finding.check}: {finding.detail}", *([f"-> {finding.fix}"] if finding.fix else [])]
    indented = "\n         ".join(escaped(output.masked(line), MAX_LINE_LENGTH) for line in lines)
    text = Text.assemble((f"{finding.status:8}", STYLES[finding.status]), f" {indented}")
    console = airflow_internals.console(output.WIDTH)
    with console.capture() as capture:
        console.print(text, soft_wrap=True, end="")
    output.write(capture.get())


def _examine(args: Namespace) -> Iterator[Finding]:
    """Examine each connection that is given, or that a deployed DAG uses, and the deployment."""
    deployed: list[InboxUse] | None = None
    unread = ""
    if not args.no_airflow:
        try:
            with airflow_internals.database_session() as session:
                deployed = list(inbox_uses(session))
        except Exception as error:  # its text may quote the database's URL
            unread = type(error).__name__
    subjects = [
        Examination(
            conn_id, args.inbox, deployed and [use for use in deployed if use.conn_id in (None, conn_id)]
        )
        for conn_id in _connections_of(args, deployed or [])
    ]
    for subject in subjects:
        for finding in _chain(OF_CONNECTION, subject):
            several = f"{finding.check} of {subject.conn_id}"
            yield finding if len(subjects) == 1 else finding._replace(check=several)
    if not args.no_airflow:
        uses = dict.fromkeys(use for subject in subjects for use in _uses_of(subject))
        yield from _chain(OF_AIRFLOW, Deployment(subjects[0].conn_id, deployed or [], list(uses), unread))


def _connections_of(args: Namespace, deployed: Iterable[InboxUse]) -> list[str]:
    """The connection that is given, and those that deployed DAGs use, if they exist; else the default one."""
    if args.inbox is not None:
        return [args.conn_id or DEFAULT_CONN_ID]
    used = sorted({use.conn_id for use in deployed if use.conn_id is not None and _exists(use.conn_id)})
    conn_ids = used if args.conn_id is None else [args.conn_id, *used]
    return list(dict.fromkeys(conn_ids)) or [DEFAULT_CONN_ID]


def _exists(conn_id: str) -> bool:
    try:
        WorkflowHook.get_connection(conn_id)
    except AirflowNotFoundException:
        return False
    except Exception:  # of a secrets backend; _connection reports it
        return True
    return True


def _chain(chain: Sequence[Callable[[Any], Iterator[Finding]]], subject: Any) -> Iterator[Finding]:
    """Run checks; one of ``NEEDED`` ends the chain if it fails."""
    for check in chain:
        findings = list(_run(check, subject))
        yield from findings
        if check in NEEDED and any(finding.status in (FAILED, SKIPPED) for finding in findings):
            break


def _run(check: Callable[[Any], Iterator[Finding]], subject: Any) -> Iterator[Finding]:
    try:
        yield from check(subject)
    except ConfigurationError as error:
        yield Finding(check.__name__[1:], FAILED, "; ".join(error.problems))
    except Exception as error:
        # Only the type: the text of an unexpected error may quote secrets.
        yield Finding(check.__name__[1:], FAILED, f"the check itself failed: {type(error).__name__}")


def _connection(subject: Examination) -> Iterator[Finding]:
    """The fields of the connection."""
    subject.hook = WorkflowHook(subject.conn_id)
    settings = subject.hook.settings
    yield Finding("connection", OK, f"{subject.conn_id}, grant {settings.grant}")
    extra = subject.hook.get_connection(subject.conn_id).extra_dejson
    for name in extra.keys() - {*EXTRA_FIELDS}:
        detail = f"the field {name!r} of Extra has no effect{meant(name, EXTRA_FIELDS)}"
        yield Finding("connection", WARNING, detail, "correct or remove it")
    urls = (settings.base_url, settings.token_url)
    if any(url.startswith("http:") and urlsplit(url).hostname not in LOCAL for url in urls):
        fix = "write Base URL and Token URL with https://"
        yield Finding("tls", WARNING, "secrets are sent unencrypted", fix)
    elif settings.verify is False and any(url.startswith("https:") for url in urls):
        fix = "set Verify TLS to true, or to a file with the certificate of the authority"
        yield Finding("tls", WARNING, "certificates are not verified", fix)


def _token(subject: Examination) -> Iterator[Finding]:
    """Client ID, client secret and scope, with a new token of the application."""
    settings = subject.hook.settings
    try:
        with closing(subject.hook.for_shutdown()) as hook:
            answer = hook.app_token()
    except WorkflowError as error:
        fix = SCOPE_FIX if getattr(error, "code", None) == "invalid_scope" else error.fix or None
        yield Finding("token", FAILED, reason_of(error), fix)
        return
    # An answer without a scope grants what was requested (RFC 6749, section 5.1).
    issued = scope if isinstance(scope := answer.get("scope"), str) else settings.scope
    granted, requested = set(issued.split()), set(settings.scope.split())
    detail = f"the token was issued for {issued or 'no scope'}"
    if INBOX_SCOPE not in granted:
        yield Finding("token", FAILED, f"{detail}; trigger inboxes need {INBOX_SCOPE}", SCOPE_FIX)
    elif missing := requested - granted:
        fix = "request it for your application, or remove it from Scope"
        yield Finding("token", WARNING, f"{detail}, not for {' '.join(sorted(missing))}", fix)
    else:
        yield Finding("token", OK, detail)


def _inbox_api(subject: Examination) -> Iterator[Finding]:
    """The trigger inbox API, with a user's tokens renewed if they are due."""
    try:
        subject.inboxes = subject.hook.run_once(inboxes.all_inboxes)
    except LoginRequiredError as error:
        yield Finding("user_tokens", FAILED, error.reason, error.fix)
    except WorkflowError as error:
        yield Finding("inbox_api", FAILED, reason_of(error), error.fix or None)
    else:
        none = "" if subject.inboxes else "; there are no inboxes yet"
        yield Finding("inbox_api", OK, f"it accepts the access token{none}")
        if (name := subject.inbox) is not None:
            listed, id_or_name = subject.inboxes, name.lower() if inboxes.is_id(name) else name
            subject.inboxes = [inbox for inbox in listed if id_or_name in names_of(inbox)]
            if not subject.inboxes:
                yield missing_inbox(f"inbox {name}", "it does not exist", name, listed, subject.conn_id)


def _inbox_states(subject: Examination) -> Iterator[Finding]:
    """State and messages of the inboxes."""
    listed = subject.inboxes or []
    for inbox in listed[:MAX_EXAMINED_INBOXES]:
        yield _inbox(subject, inbox)
    for inbox in listed[MAX_EXAMINED_INBOXES:]:
        name = inbox.get("name") or inbox["id"]
        state = _state(subject, inbox, shlex.quote(name))
        if state[0] != OK:
            yield Finding(f"inbox {name}", *state)
    if len(listed) > MAX_EXAMINED_INBOXES:
        detail = f"messages of {len(listed) - MAX_EXAMINED_INBOXES} more were not counted"
        yield Finding("inboxes", WARNING, detail, "examine them with --inbox")


def _inbox(subject: Examination, inbox: types.Inbox) -> Finding:
    """State and messages in one line."""
    name = inbox.get("name") or inbox["id"]
    check, quoted = f"inbox {name}", shlex.quote(name)
    state = _state(subject, inbox, quoted)
    if inbox["status"] in ("initialization_failure", "deleting"):
        return Finding(check, *state)
    try:
        messages, more = subject.hook.run_once(inboxes.first_messages, inbox["id"], MAX_EXAMINED_PAGES)
    except WorkflowError as error:
        return Finding(check, FAILED, f"{state[1]}; {error}", "transient error; run doctor again")
    counts = inboxes.count_messages(messages)
    detail = f"{state[1]}; " + ", ".join(f"{counts[name]} {name}" for name in inboxes.COUNTED)
    detail += f", among the first {len(messages)}" if more else ""
    fixes = [state[2]] if state[2] else []
    if counts["quarantined"]:
        see = subject.command(f"inbox messages {quoted} --status quarantined")
        again = f"fix the cause, and have them sent again ({see})"
        fixes.append(f"quarantined messages start no runs: {again}")
    often = sum(
        (delivery_count(message) or 0) >= HIGH_DELIVERY_COUNT
        for message in messages
        if message.get("status") in ("available", "leased")
    )
    if often:
        have = "1 has" if often == 1 else f"{often} have"
        detail += f"; {have} a delivery count of {HIGH_DELIVERY_COUNT} or more"
        fixes.append("no route takes them, or the log of the listener has the error")
        uses = [use for use in subject.uses or () if use.inbox in names_of(inbox)]
        if listener_ids := sorted({use.dag_id for use in uses if use.lacks_dead_letters}):
            fixes.append(f"set dead_letter_dag_id of {' and '.join(listener_ids)}, or they are quarantined")
    status = WARNING if state[0] == OK and fixes else state[0]
    return Finding(check, status, detail, "; ".join(fixes) or None)


def _state(subject: Examination, inbox: types.Inbox, quoted: str) -> tuple[str, str, str | None]:
    """Status, detail and fix for the state of an inbox."""
    status = inbox["status"]
    resume, delete = (subject.command(f"inbox {verb} {quoted}") for verb in ("resume", "delete"))
    recreate = f"delete it ({delete}), and create it again"
    problem = problem_of(inbox, quoted, subject.conn_id, resume=resume, recreate=recreate)
    if problem is not None and problem.fix:
        return (WARNING if problem.is_wanted else FAILED), problem.state, problem.fix
    if status == types.ACTIVE:
        return OK, status, None
    return WARNING, status, OTHER_STATES.get(status, "update the provider: the state is new")


def _database(_: Deployment) -> Iterator[Finding]:
    """Airflow's metadata database."""
    try:
        airflow_internals.triggerer_heartbeats()
    except Exception as error:
        # Only the type: the text may quote the database's URL with its password.
        # Not a failure: workers have no access to the database. But nothing is known of the rest.
        detail = f"it cannot be read from here: {type(error).__name__}"
        fix = "run doctor where airflow db check succeeds, or leave triggerer and DAGs out (--no-airflow)"
        yield Finding("database", SKIPPED, detail, fix)


def _payload_store(_: Deployment) -> Iterator[Finding]:
    """Whether payloads can be written to ``[workflow] payload_objectstorage_path``, and read again."""
    try:
        store = PayloadStore.configured()
        if store is None:
            return
        store.check(read=True)
    except PayloadStoreError as error:
        fix = "correct [workflow] payload_objectstorage_path, its connection, or the rights of that"
        yield Finding("payload store", FAILED, str(error), fix)
        return
    size = f"payloads of {store.threshold} bytes or more" if store.threshold else "all payloads"
    yield Finding("payload store", OK, f"{size} are written to {store.path}")
    executors = conf.get("core", "executor", fallback="")
    if store.is_on_disk and executors != "LocalExecutor":
        detail = f"{store.path} is on a disk, and tasks run on other machines too ({executors})"
        fix = "mount it on all workers, or use an object storage such as s3://"
        yield Finding("payload store", WARNING, detail, fix)


def _triggerer(_: Deployment) -> Iterator[Finding]:
    """Whether a triggerer is alive."""
    now = datetime.fromtimestamp(clock.now(), UTC)
    threshold = conf.getfloat("triggerer", "triggerer_health_check_threshold", fallback=30.0)
    ages = [(now - beat).total_seconds() for beat in airflow_internals.triggerer_heartbeats()]
    alive = sum(age <= threshold for age in ages)
    if alive:
        yield Finding("triggerer", OK, f"{alive} alive")
        return
    last = f"the last heartbeat is {output.duration(min(ages))} old" if ages else "none is running"
    waiting = airflow_internals.count_triggers(TRIGGERS_PREFIX)
    yield Finding(
        "triggerer",
        FAILED if waiting else WARNING,
        f"no triggerer is alive: {last}; waiting triggers of this provider: {waiting}",
        "start one: airflow triggerer (sensors and asset watchers wait in it)",
    )


def _dag_files(_: Deployment) -> Iterator[Finding]:
    """DAG files that Airflow cannot import."""
    if files := airflow_internals.files_with_import_errors():
        yield Finding("dag files", WARNING, f"cannot be imported: {', '.join(files)}", SEE_IMPORT_ERRORS)


def _dags(deployment: Deployment) -> Iterator[Finding]:
    """Listeners, their targets, and dead-letter DAGs."""
    if deployment.error:
        yield Finding("dags", FAILED, f"the deployed DAGs cannot be read: {deployment.error}")
        return
    with airflow_internals.database_session() as session:
        deployed = airflow_internals.deployed_dags(needed_dags(deployment.uses), session)
        pools = airflow_internals.pool_names(session)
    findings = [finding for *_, finding in dag_findings(deployment.uses, deployed)]
    yield from (finding for finding in findings if finding.status != OK)
    sound = [finding.check for finding in findings if finding.status == OK]
    if sound:
        yield Finding("dags", OK, f"deployed and unpaused: {', '.join(sound)}")
    yield from _missing_connections(deployment)
    for use in deployment.uses:
        for detail, fix in _risks(use, pools):
            yield Finding(f"task {use.dag_id}.{use.task_id}", WARNING, detail, fix)


def _missing_connections(deployment: Deployment) -> Iterator[Finding]:
    """Other connections that Airflow does not have."""
    conn_id = deployment.conn_id
    for dag_id, other in dict.fromkeys((use.dag_id, use.conn_id or conn_id) for use in deployment.deployed):
        if other != conn_id and not _exists(other):
            detail = f"it uses the connection {other!r}, which does not exist{meant(other, [conn_id])}"
            yield Finding(f"listener {dag_id}", FAILED, detail, "correct its id, or add it to Airflow")


def _risks(use: InboxUse, pools: Collection[str]) -> Iterator[tuple[str, str]]:
    """Arguments of Airflow, often of ``default_args``, that keep a task from its work; and their fixes."""
    of_task = "from the task and its default_args"
    if use.retries == 0:
        yield "it has no retries: each transient error fails its run", f"remove retries=0 {of_task}"
    if use.pool is not None and use.pool not in pools:
        fix = f"create it (airflow pools set {shlex.quote(use.pool)} 16 listeners), or correct pool"
        yield f"its pool {use.pool!r} does not exist: it never starts", fix
    if use.depends_on_past:
        detail = "depends_on_past is set: after a failed run it never starts again"
        yield detail, f"remove depends_on_past {of_task}"
    if not use.pushes_xcom:
        detail = "do_xcom_push=False: its result is lost, and it repeats alarms"
        yield detail, f"remove do_xcom_push=False {of_task}"


def _uses_of(subject: Examination) -> list[InboxUse]:
    """The uses that may be of the examined connection and inbox."""
    uses, names = subject.uses or [], {None, subject.inbox}.union(*map(names_of, subject.inboxes or []))
    return [use for use in uses if subject.inbox is None or use.inbox in names]


def _listeners(subject: Examination) -> Iterator[Finding]:
    """Inboxes that do not exist, have no listener, or several."""
    if subject.inboxes is None or subject.uses is None:
        return
    uses = _uses_of(subject)
    for _, finding in missing_inboxes(uses, subject.inboxes, subject.conn_id):
        yield finding
    for inbox in subject.inboxes:
        yield from filter(None, (no_listener(inbox, uses), several_listeners(inbox, uses)))


OF_CONNECTION = (_connection, _token, _inbox_api, _inbox_states, _listeners)
OF_AIRFLOW = (_payload_store, _database, _triggerer, _dag_files, _dags)
NEEDED = (_connection, _token, _inbox_api, _database)
"""The checks on which the later ones of their chain depend."""
