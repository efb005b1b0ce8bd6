"""Checks of ``doctor``: fields of the connection, TLS, reachability, tokens, and the inbox API."""

from __future__ import annotations

import socket
import ssl
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from urllib.parse import urlsplit

from airflow.sdk.log import mask_secret

from airflow_provider_workflow import clock as package_clock
from airflow_provider_workflow.cli.doctor_findings import FAILED, OK, SKIPPED, WARNING, Finding, Subject
from airflow_provider_workflow.cli.login import is_loopback
from airflow_provider_workflow.cli.running import hook_of
from airflow_provider_workflow.client import api
from airflow_provider_workflow.client.advice import INBOX_SCOPE, SCOPE_FIX
from airflow_provider_workflow.client.client import WorkflowClient
from airflow_provider_workflow.client.errors import (
    AuthenticationError,
    LoginRequiredError,
    TokenStoreError,
    WorkflowError,
)
from airflow_provider_workflow.client.exchange import Gates
from airflow_provider_workflow.client.settings import USER_GRANT, Settings, proxy_for, trusted
from airflow_provider_workflow.client.tokens import TokenCache, token_key, token_of_user
from airflow_provider_workflow.client.user_tokens import UserTokens
from airflow_provider_workflow.client.wire import host_of
from airflow_provider_workflow.hooks.connection_test import Trial, plain_reason
from airflow_provider_workflow.hooks.login import check_store
from airflow_provider_workflow.hooks.user_tokens import VariableStore


def connection(subject: Subject) -> Iterator[Finding]:
    hook = hook_of(Namespace(conn_id=subject.conn_id))
    found = hook.get_connection(subject.conn_id)
    subject.settings = hook.settings
    subject.trial = Trial(hook.settings, mask_secret)
    detail = f"{subject.conn_id} is complete; its grant is {subject.settings.grant}"
    if found.conn_type == hook.conn_type:
        yield Finding("connection", OK, detail)
    else:
        fix = "choose the connection type Workflow"
        yield Finding("connection", WARNING, f"{detail}; its type is {found.conn_type}", fix)


def tls(subject: Subject) -> Iterator[Finding]:
    settings = subject.settings
    source = None if settings.verify is False else trusted(settings.verify)[0]
    urls = {"Base URL": settings.base_url, "Token URL": settings.token_url}
    clear = [name for name, url in urls.items() if _is_in_clear(url)]
    if clear:
        fix = "write it with https://"
        yield Finding("tls", WARNING, f"{' and '.join(clear)} without TLS: secrets are sent unencrypted", fix)
    elif not any(urlsplit(url).scheme == "https" for url in urls.values()):
        yield Finding("tls", OK, "not used: the service is on this machine")
    elif source is None:
        fix = "set Verify TLS to true, or to a file with the certificate of the authority"
        yield Finding(
            "tls",
            WARNING,
            "certificates are not verified: an attacker on the network can impersonate the service",
            fix,
        )
    else:
        yield Finding("tls", OK, f"certificates are verified, by {source}")


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
    except UnreachableError as error:
        return Finding(check, FAILED, error.detail, error.fix)


MOST_CLOCK_SKEW = 30.0
"""Seconds. The end of a lease is computed with the local clock, and passed from machine to machine."""


def client(subject: Subject) -> Iterator[Finding]:
    accepted = "the token endpoint accepts the client ID and the client secret"
    try:
        subject.issued = subject.trial.token()
        yield Finding("client", OK, accepted)
    except WorkflowError as error:
        if isinstance(error, AuthenticationError) and error.code == "invalid_scope":
            subject.scope_refused = error
            yield Finding("client", OK, f"{accepted}, but not the scope")
        else:
            yield Finding("client", FAILED, plain_reason(error), error.fix)


def scope(subject: Subject) -> Iterator[Finding]:
    requested = subject.settings.scope
    if subject.scope_refused is not None:
        yield Finding("scope", FAILED, f"{requested}: {plain_reason(subject.scope_refused)}", SCOPE_FIX)
        return
    granted = subject.issued.scope if subject.issued else ""
    if INBOX_SCOPE not in granted.split():
        detail = f"the token was issued for {granted or 'no scope'}; trigger inboxes need {INBOX_SCOPE}"
        yield Finding("scope", FAILED, detail, SCOPE_FIX)
    elif missing := set(requested.split()) - set(granted.split()):
        detail = f"{' '.join(sorted(missing))} was requested but not granted"
        yield Finding("scope", WARNING, detail, "request it for your application, or remove it from Scope")
    else:
        yield Finding("scope", OK, f"the token was issued for {granted}")


def clock(subject: Subject) -> Iterator[Finding]:
    ahead = subject.issued.ahead if subject.issued else None
    if ahead is None:
        return
    skew = f"this machine's clock and the service's are {abs(ahead):.0f} s apart"
    if abs(ahead) <= MOST_CLOCK_SKEW:
        yield Finding("clock", OK, skew)
    else:
        way = "behind" if ahead > 0 else "ahead"
        fix = "synchronize this machine's clock (NTP): leases are measured by it"
        yield Finding("clock", WARNING, f"{skew}: this one is {way}", fix)


class _TokenRejectedError(WorkflowError):
    """The service rejects the stored access token before it expires."""


class _NoRenewal:
    """A token store that refuses to renew: ``doctor`` must not use up the refresh token."""

    def read(self) -> UserTokens | None:
        raise _TokenRejectedError("the service rejects the stored access token before it expires")

    def write(self, _: UserTokens) -> None:
        raise NotImplementedError


def user_tokens(subject: Subject) -> Iterator[Finding]:
    settings = subject.settings
    if settings.grant != USER_GRANT:
        return
    try:
        check_store()
        stored = VariableStore(settings, mask_secret).read()
        if stored is None:
            raise LoginRequiredError(settings.connection_id, "no tokens are stored")
    except TokenStoreError as error:
        yield Finding("user_tokens", FAILED, str(error), "run this command where Airflow runs")
        return
    except LoginRequiredError as error:
        yield Finding("user_tokens", FAILED, error.reason, error.fix)
        return
    until = datetime.fromtimestamp(stored.expires_at, UTC).strftime("%Y-%m-%d %H:%M UTC")
    if stored.expires_at <= package_clock.now():
        detail = f"stored; the access token expired at {until}, and the next task or trigger renews it"
        yield Finding("user_tokens", OK, detail)
        return
    tokens = TokenCache()
    token = token_of_user(replace(stored, renew_at=stored.expires_at), issued=False)
    tokens.put(token_key(settings, settings.scope), token)
    subject.inbox_client = WorkflowClient(
        settings, tokens=tokens, gates=Gates(), on_token=mask_secret, attempts=1, store=_NoRenewal()
    )
    yield Finding("user_tokens", OK, f"stored; the access token is valid until {until}")


def inbox_api(subject: Subject) -> Iterator[Finding]:
    if subject.settings.grant != USER_GRANT:
        subject.inbox_client = subject.trial.client
        if subject.issued is None:
            yield Finding("inbox_api", SKIPPED, "there is no access token")
            return
    if not subject.has("inbox_client"):
        detail = "not examined: the user's tokens would have to be renewed"
        yield Finding("inbox_api", SKIPPED, detail, "run doctor again after a task has used the connection")
        return
    try:
        subject.inbox_client.send(api.list_inboxes(limit=1))
        yield Finding("inbox_api", OK, "the trigger inbox API accepts the access token")
    except _TokenRejectedError as error:
        fix = "run doctor again after the next task or trigger has renewed it"
        yield Finding("inbox_api", SKIPPED, str(error), fix)
    except WorkflowError as error:
        yield Finding("inbox_api", FAILED, plain_reason(error), error.fix)


LONGEST_SECONDS = 10.0
"""Limit for connecting and for the TLS handshake, each; less if the connection's ``timeout`` is less."""

TRUST = (
    "set Verify TLS to a file with the certificate of the signing authority, or SSL_CERT_FILE for all of"
    " Airflow"
)
UNTRUSTED = ("is signed by an authority that this machine does not trust", TRUST)
CERTIFICATES = {
    9: ("is not valid yet", "set this machine's clock"),
    10: ("has expired", "ask the operator of the service to renew it, or set this machine's clock"),
    18: ("is self-signed", TRUST),
    19: UNTRUSTED,
    20: UNTRUSTED,
    21: UNTRUSTED,
    62: ("is for another host name", "use the name in the certificate in {field}"),
    64: ("is for another IP address", "use the name in the certificate in {field}"),
}
"""Problem and fix of a certificate, by the ``X509_V_ERR`` number of OpenSSL."""


class UnreachableError(Exception):
    """
    A URL that cannot be reached.

    :param fix: what to do about it.
    """

    def __init__(self, detail: str, fix: str) -> None:
        super().__init__(detail)
        self.detail = detail
        self.fix = fix


def reach(field: str, url: str, settings: Settings) -> str:
    """
    Connect to a URL, including the TLS handshake, without sending a request.

    :param field: name of the connection's field, for the fix.
    :return: the detail of the finding.
    :raises UnreachableError: it cannot be reached.
    :raises ConfigurationError: the environment names a proxy that cannot be used.
    """
    proxy = proxy_for(url)
    target = proxy or url
    if proxy:
        field = "the proxy of the environment (HTTP_PROXY, HTTPS_PROXY, NO_PROXY)"
    parts = urlsplit(target)
    host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
    name = f"{host}:{port}"
    seconds = min(settings.timeout, LONGEST_SECONDS)
    connection = _connected(field, host, port, seconds)
    with connection:
        if proxy:
            return f"the proxy {name} answers; {host_of(url)} is reached through it"
        if parts.scheme == "http":
            return f"{name} answers, without TLS"
        return f"{name} answers, {_secured(field, connection, host, name, settings)}"


def _connected(field: str, host: str, port: int, seconds: float) -> socket.socket:
    name = f"{host}:{port}"
    try:
        return socket.create_connection((host, port), seconds)
    except (socket.gaierror, UnicodeError):
        fix = f"check the spelling of {field}, and the DNS configuration of this machine"
        raise UnreachableError(f"the name {host} cannot be resolved", fix) from None
    except ConnectionRefusedError:
        fix = f"check the port in {field}, and whether the service is running"
        raise UnreachableError(f"{name} refuses connections", fix) from None
    except TimeoutError:
        fix = f"check {field}, and firewalls and proxies between this machine and the service"
        raise UnreachableError(f"{name} did not accept a connection within {seconds:g} s", fix) from None
    except OSError as error:
        fix = f"check {field}, and the network of this machine"
        raise UnreachableError(f"{name} cannot be reached: {error.strerror}", fix) from None


def _secured(field: str, connection: socket.socket, host: str, name: str, settings: Settings) -> str:
    context = tls_context(settings)
    try:
        with context.wrap_socket(connection, server_hostname=host) as tls:
            unverified = "" if context.check_hostname else ", its certificate not verified"
            return f"{tls.version()}{unverified}"
    except ssl.SSLCertVerificationError as error:
        unknown = (f"does not verify ({error.verify_message})", TRUST)
        what, fix = CERTIFICATES.get(error.verify_code, unknown)
        raise UnreachableError(f"the certificate of {name} {what}", fix.format(field=field)) from None
    except TimeoutError:
        raise UnreachableError(*_no_tls(field, name, "it does not answer")) from None
    except OSError as error:  # ssl.SSLError too, whose reason is a name such as WRONG_VERSION_NUMBER
        raise UnreachableError(
            *_no_tls(field, name, getattr(error, "reason", None) or error.strerror)
        ) from None


def _no_tls(field: str, name: str, reason: object) -> tuple[str, str]:
    fix = f"check the port in {field}; if the service does not use TLS, {field} must begin with http://"
    return f"{name} answers, but the TLS handshake failed: {reason}", fix


def tls_context(settings: Settings) -> ssl.SSLContext:
    """
    The context that certificates are verified with, like those of the senders.

    :raises ConfigurationError: a file of CA certificates cannot be used.
    """
    certificates = settings.certificates()
    if certificates is not None:
        return ssl.create_default_context(cadata=certificates)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
