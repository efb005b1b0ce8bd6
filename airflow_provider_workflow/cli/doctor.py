"""``doctor``: examines a connection, and reports what each check found and how to fix it."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import asdict

from airflow_provider_workflow.cli import doctor_connection, doctor_deployment, output
from airflow_provider_workflow.cli.doctor_findings import FAILED, Check, Finding, Subject, examine
from airflow_provider_workflow.cli.doctor_inboxes import examine_inboxes
from airflow_provider_workflow.cli.running import Exit
from airflow_provider_workflow.client.wire import plain

CHECKS = (
    Check("connection", doctor_connection.connection),
    Check("tls", doctor_connection.tls, ("connection",)),
    Check("token_url", doctor_connection.token_url, ("tls",)),
    Check("host", doctor_connection.host, ("tls",)),
    Check("client", doctor_connection.client, ("token_url",)),
    Check("scope", doctor_connection.scope, ("client",)),
    Check("clock", doctor_connection.clock, ("client",)),
    Check("user_tokens", doctor_connection.user_tokens, ("connection",)),
    Check("inbox_api", doctor_connection.inbox_api, ("host", "client", "user_tokens")),
    Check("inboxes", examine_inboxes, ("inbox_api",)),
    Check("database", doctor_deployment.database),
    Check("triggerer", doctor_deployment.triggerer, ("database",)),
    Check("clocks", doctor_deployment.clocks, ("database",)),
    Check("dags", doctor_deployment.dags, ("database",)),
    Check("fernet_key", doctor_deployment.fernet_key),
    Check("airflow", doctor_deployment.version),
    Check("common.messaging", doctor_deployment.providers),
    Check("heartbeat", doctor_deployment.heartbeat),
    Check("ack_timeout", doctor_deployment.ack_timeout),
)
LONGEST_LINE = 1000
"""Maximum characters of a line."""


def doctor(args: Namespace) -> int:
    """
    Examine a connection.

    :param args: ``conn_id``; ``inbox``, or None for all; ``listener_dag_id`` and ``target_dag_id``,
        lists or None; ``output``.
    :return: 0 if no check failed.
    """
    findings: list[Finding] = []
    named = (tuple(args.listener_dag_id or ()), tuple(args.target_dag_id or ()))
    for finding in examine(CHECKS, Subject(args.conn_id, args.inbox, *named)):
        findings.append(finding)
        if args.output in ("table", "plain"):
            # One at a time: a URL that does not answer takes seconds.
            output.write(_line(finding))
    if args.output not in ("table", "plain"):
        output.show(args.output, [asdict(finding) for finding in findings])
    return Exit.FAULT if any(finding.status == FAILED for finding in findings) else Exit.OK


def _line(finding: Finding) -> str:
    found = f"{finding.status:8} {finding.check}: {finding.detail}"
    lines = [found, *([f"         -> {finding.fix}"] if finding.fix else [])]
    return "\n".join(plain(output.masked(line), LONGEST_LINE) for line in lines)
