"""``doctor``: examines a connection, and says of each thing what was seen and how to fix it."""

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
    Check("dags", doctor_deployment.dags, ("database",)),
    Check("fernet_key", doctor_deployment.fernet_key),
    Check("airflow", doctor_deployment.version),
    Check("fastapi", doctor_deployment.fastapi),
    Check("common.messaging", doctor_deployment.providers),
    Check("heartbeat", doctor_deployment.heartbeat),
    Check("ack_timeout", doctor_deployment.ack_timeout),
)
LONGEST = 1000
"""Characters of a line."""


def doctor(args: Namespace) -> int:
    """
    Examine a connection.

    :param args: ``conn_id``; ``inbox``, None for all of them; ``listener_dag_id`` and ``target_dag_id``,
        lists or None; ``output``.
    :return: 0 where nothing failed.
    """
    findings: list[Finding] = []
    named = (tuple(args.listener_dag_id or ()), tuple(args.target_dag_id or ()))
    for finding in examine(CHECKS, Subject(args.conn_id, args.inbox, *named)):
        findings.append(finding)
        if args.output in ("table", "plain"):
            # Each as it comes: an address that does not answer takes its time.
            output.write(_told(finding))
    if args.output not in ("table", "plain"):
        output.show(args.output, [asdict(finding) for finding in findings])
    return Exit.FAULT if any(finding.status == FAILED for finding in findings) else Exit.OK


def _told(finding: Finding) -> str:
    said = f"{finding.status:8} {finding.check}: {finding.detail}"
    lines = [said, *([f"         -> {finding.fix}"] if finding.fix else [])]
    return "\n".join(plain(output.hidden(line), LONGEST) for line in lines)
