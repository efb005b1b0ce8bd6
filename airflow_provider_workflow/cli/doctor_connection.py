"""What ``doctor`` finds out of a connection before anything is sent: its fields, TLS, the way there."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from urllib.parse import urlsplit

from airflow_provider_workflow.cli.connecting import hook_of
from airflow_provider_workflow.cli.doctor_findings import FAILED, OK, WARNING, Finding, Subject
from airflow_provider_workflow.cli.doctor_reach import Unreachable, reach, tls_context
from airflow_provider_workflow.cli.place import is_loopback
from airflow_provider_workflow.client.settings import Settings
from airflow_provider_workflow.hooks.masking import mask
from airflow_provider_workflow.hooks.trial import Trial


def connection(subject: Subject) -> Iterator[Finding]:
    hook = hook_of(Namespace(conn_id=subject.conn_id))
    found = hook.get_connection(subject.conn_id)
    subject.settings = hook.settings
    subject.trial = Trial(hook.settings, mask)
    said = f"{subject.conn_id} is complete; its grant is {subject.settings.grant}"
    if found.conn_type == hook.conn_type:
        yield Finding("connection", OK, said)
    else:
        cure = "choose the connection type Workflow, whose form has our fields"
        yield Finding("connection", WARNING, f"{said}; its type is {found.conn_type}", cure)


def tls(subject: Subject) -> Iterator[Finding]:
    settings = subject.settings
    try:
        tls_context(settings)
    except OSError:
        cure = "name a file of certificates in PEM form as Verify TLS"
        yield Finding("tls", FAILED, "the file of CA certificates cannot be read as such", cure)
        return
    urls = {"Base URL": settings.base_url, "Token URL": settings.token_url}
    clear = [name for name, url in urls.items() if _is_in_clear(url)]
    if clear:
        cure = "write it with https://"
        yield Finding("tls", WARNING, f"{' and '.join(clear)} without TLS: secrets cross in clear", cure)
    elif not any(urlsplit(url).scheme == "https" for url in urls.values()):
        yield Finding("tls", OK, "not used, and not needed: the service is on this machine")
    elif settings.verify is False:
        cure = "set Verify TLS to true, or to a file with the certificate of the authority"
        yield Finding("tls", WARNING, "certificates are not verified: anybody between may pose as it", cure)
    else:
        trusted = settings.verify if isinstance(settings.verify, str) else "the usual authorities"
        yield Finding("tls", OK, f"certificates are verified, by {trusted}")


def _is_in_clear(url: str) -> bool:
    parts = urlsplit(url)
    return parts.scheme == "http" and not is_loopback(parts.hostname or "")


def token_url(subject: Subject) -> Iterator[Finding]:
    yield _reached("token_url", "Token URL", subject.settings.token_url, subject.settings)


def host(subject: Subject) -> Iterator[Finding]:
    yield _reached("host", "Base URL", subject.settings.base_url, subject.settings)


def _reached(check: str, field: str, url: str, settings: Settings) -> Finding:
    try:
        return Finding(check, OK, reach(field, url, settings))
    except Unreachable as error:
        return Finding(check, FAILED, error.detail, error.cure)
