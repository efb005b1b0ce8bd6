"""What ``doctor`` finds out of a connection before anything is sent: its fields, TLS, the way there."""

from __future__ import annotations

import socket
import ssl
from argparse import Namespace
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, timezone
from urllib.parse import urlsplit

from airflow_provider_workflow.cli.doctor_findings import FAILED, OK, SKIPPED, WARNING, Finding, Subject
from airflow_provider_workflow.cli.login import is_loopback
from airflow_provider_workflow.cli.running import hook_of
from airflow_provider_workflow.client import api
from airflow_provider_workflow.client.attempt import Gates
from airflow_provider_workflow.client.call import UserTokens
from airflow_provider_workflow.client.client import WorkflowClient
from airflow_provider_workflow.client.errors import (
    AuthenticationError,
    LoginRequiredError,
    NotFoundError,
    RateLimitError,
    ServerError,
    TokenStoreError,
    TransportError,
    WorkflowError,
)
from airflow_provider_workflow.client.settings import USER_GRANT, Settings, proxy_for
from airflow_provider_workflow.client.tokens import TokenCache, token_key
from airflow_provider_workflow.client.wire import host_of
from airflow_provider_workflow.clock import now
from airflow_provider_workflow.hooks.connection_test import Trial, plain_reason
from airflow_provider_workflow.hooks.login import check_store
from airflow_provider_workflow.hooks.masking import mask
from airflow_provider_workflow.hooks.user_tokens import VariableStore


def connection(subject: Subject) -> Iterator[Finding]:
    hook = hook_of(Namespace(conn_id=subject.conn_id))
    found = hook.get_connection(subject.conn_id)
    subject.settings = hook.settings
    subject.trial = Trial(hook.settings, mask)
    said = f"{subject.conn_id} is complete; its grant is {subject.settings.grant}"
    if found.conn_type == hook.conn_type:
        yield Finding("connection", OK, said)
    else:
        fix = "choose the connection type Workflow, whose form has our fields"
        yield Finding("connection", WARNING, f"{said}; its type is {found.conn_type}", fix)


def tls(subject: Subject) -> Iterator[Finding]:
    settings = subject.settings
    try:
        tls_context(settings)
    except OSError:
        fix = "name a file of certificates in PEM form as Verify TLS"
        yield Finding("tls", FAILED, "the file of CA certificates cannot be read as such", fix)
        return
    urls = {"Base URL": settings.base_url, "Token URL": settings.token_url}
    clear = [name for name, url in urls.items() if _is_in_clear(url)]
    if clear:
        fix = "write it with https://"
        yield Finding("tls", WARNING, f"{' and '.join(clear)} without TLS: secrets cross in clear", fix)
    elif not any(urlsplit(url).scheme == "https" for url in urls.values()):
        yield Finding("tls", OK, "not used, and not needed: the service is on this machine")
    elif settings.verify is False:
        fix = "set Verify TLS to true, or to a file with the certificate of the authority"
        yield Finding("tls", WARNING, "certificates are not verified: anybody between may pose as it", fix)
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
        return Finding(check, FAILED, error.detail, error.fix)


INBOX_SCOPE = "external"
"""The scope that trigger inboxes ask for (docs/service.md 14.4)."""
MOST_SECONDS_APART = 30.0
"""Of two clocks: leases are measured by ours, and handed over from machine to machine."""


def client(subject: Subject) -> Iterator[Finding]:
    taken = "the token endpoint takes the client ID and the client secret"
    try:
        subject.issued = subject.trial.token()
        yield Finding("client", OK, taken)
    except WorkflowError as error:
        if isinstance(error, AuthenticationError) and error.code == "invalid_scope":
            subject.scope_refused = error
            yield Finding("client", OK, f"{taken}, but not the scope")
        else:
            yield Finding("client", FAILED, plain_reason(error), _fix_of_token(error))


def _fix_of_token(error: WorkflowError) -> str:
    if isinstance(error, AuthenticationError) and (
        error.status in (401, 403) or "client" in (error.code or "")
    ):
        return (
            "copy Client ID and Client secret once more from where your application is administered;"
            " a secret that was regenerated makes the former one invalid"
        )
    return _fix(error, "Token URL", "it has to be the token endpoint, exactly as the service gives it")


def _fix(error: WorkflowError, field: str, otherwise: str) -> str:
    if isinstance(error, RateLimitError):
        return "too many requests were made; try again later"
    if isinstance(error, ServerError):
        return "the service itself fails; try again later"
    if isinstance(error, TransportError) and not error.sent:
        return f"check {field}, and the network between"
    return f"check {field}: {otherwise}"


def scope(subject: Subject) -> Iterator[Finding]:
    asked = subject.settings.scope
    fix = f"set Scope to {INBOX_SCOPE}, or leave it empty"
    if subject.scope_refused is not None:
        yield Finding("scope", FAILED, f"{asked}: {plain_reason(subject.scope_refused)}", fix)
        return
    granted = subject.issued.scope if subject.issued else ""
    if INBOX_SCOPE not in granted.split():
        detail = f"the token was issued for {granted or 'no scope'}; trigger inboxes need {INBOX_SCOPE}"
        yield Finding("scope", FAILED, detail, fix)
    elif missing := set(asked.split()) - set(granted.split()):
        detail = f"{' '.join(sorted(missing))} was asked for, and not granted"
        yield Finding("scope", WARNING, detail, "have your application allowed it, or take it out of Scope")
    else:
        yield Finding("scope", OK, f"the token was issued for {granted}")


def clock(subject: Subject) -> Iterator[Finding]:
    ahead = subject.issued.ahead if subject.issued else None
    if ahead is None:
        return
    apart = f"this machine's clock and the service's are {abs(ahead):.0f} s apart"
    if abs(ahead) <= MOST_SECONDS_APART:
        yield Finding("clock", OK, apart)
    else:
        way = "behind" if ahead > 0 else "ahead"
        fix = "synchronise this machine's clock (NTP): leases are measured by it"
        yield Finding("clock", WARNING, f"{apart}: this one is {way}", fix)


class _TokenRefused(WorkflowError):
    """The stored access token is refused before its time."""


class _Unrenewed:
    """A store that has nothing more to give: a diagnosis uses no refresh token up."""

    def read(self) -> UserTokens | None:
        raise _TokenRefused("the service refuses the stored access token before its time")

    def write(self, _: UserTokens) -> None:
        raise NotImplementedError


def user_tokens(subject: Subject) -> Iterator[Finding]:
    settings = subject.settings
    if settings.grant != USER_GRANT:
        return
    try:
        check_store()
        stored = VariableStore(settings, mask).read()
        if stored is None:
            raise LoginRequiredError(settings.connection_id, "none are stored")
    except TokenStoreError as error:
        yield Finding("user_tokens", FAILED, str(error), "run this where Airflow runs")
        return
    except LoginRequiredError as error:
        yield Finding("user_tokens", FAILED, error.reason, error.cure)
        return
    until = datetime.fromtimestamp(stored.expires_at, timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
    if stored.expires_at <= now():
        detail = f"stored; the access token ended {until}, and the next task or trigger renews it"
        yield Finding("user_tokens", OK, detail)
        return
    tokens = TokenCache()
    tokens.adopt(
        token_key(settings, settings.scope), replace(stored, renew_at=stored.expires_at), issued=False
    )
    subject.inbox_client = WorkflowClient(
        settings, tokens=tokens, gates=Gates(), on_token=mask, attempts=1, store=_Unrenewed()
    )
    yield Finding("user_tokens", OK, f"stored; the access token holds until {until}")


def inbox_api(subject: Subject) -> Iterator[Finding]:
    if subject.settings.grant != USER_GRANT:
        subject.inbox_client = subject.trial.client
        if subject.issued is None:
            yield Finding("inbox_api", SKIPPED, "there is no token to use it with")
            return
    if not subject.has("inbox_client"):
        detail = "not examined: it would take a renewal of the user's tokens"
        yield Finding("inbox_api", SKIPPED, detail, "examine again once a task has used the connection")
        return
    try:
        subject.inbox_client.send(api.list_inboxes(limit=1))
        yield Finding("inbox_api", OK, "the trigger inbox API takes the access token")
    except _TokenRefused as error:
        fix = "the next task or trigger renews it; examine again afterwards"
        yield Finding("inbox_api", SKIPPED, str(error), fix)
    except WorkflowError as error:
        yield Finding("inbox_api", FAILED, plain_reason(error), _fix_of_api(error, subject))


def _fix_of_api(error: WorkflowError, subject: Subject) -> str:
    if isinstance(error, AuthenticationError) and error.code == "invalid_audience":
        if subject.settings.grant == USER_GRANT:
            return f"log in again with the scope {INBOX_SCOPE}"
        return f"set Scope to {INBOX_SCOPE}; and Token URL and Base URL have to be of the same service"
    if isinstance(error, AuthenticationError):
        return "have your application allowed to use trigger inboxes"
    if isinstance(error, NotFoundError):
        return f"check Inbox path ({subject.settings.inbox_path}) and Base URL"
    return _fix(error, "Base URL and Inbox path", "there has to be the API of the service")


LONGEST_SECONDS = 10.0
"""For each of connecting and the TLS handshake; less where the connection's ``timeout`` is less."""

TRUST = "set Verify TLS to a file with the certificate of the authority that signed it"
UNTRUSTED = ("is signed by an authority that is not trusted here", TRUST)
CERTIFICATES = {
    9: ("is not valid yet", "set this machine's clock"),
    10: ("has expired", "have it renewed by whoever runs the service, or set this machine's clock"),
    18: ("is signed by itself", TRUST),
    19: UNTRUSTED,
    20: UNTRUSTED,
    21: UNTRUSTED,
    62: ("belongs to another name", "write {field} with the name that the certificate has"),
    64: ("belongs to another address", "write {field} with the name that the certificate has"),
}
"""What is wrong with a certificate, and its fix, by the ``X509_V_ERR`` number of OpenSSL."""


class Unreachable(Exception):
    """
    An address that cannot be reached.

    :param fix: what to do about it.
    """

    def __init__(self, detail: str, fix: str) -> None:
        super().__init__(detail)
        self.detail = detail
        self.fix = fix


def reach(field: str, url: str, settings: Settings) -> str:
    """
    Connect to an address, as far as TLS goes; no request is sent.

    :param field: how the connection's field is named in a fix.
    :return: what was seen.
    :raises Unreachable: it cannot be reached.
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
            return f"the proxy {name} answers, through which {host_of(url)} is reached"
        if parts.scheme == "http":
            return f"{name} answers, without TLS"
        return f"{name} answers, {_secured(field, connection, host, name, settings)}"


def _connected(field: str, host: str, port: int, seconds: float) -> socket.socket:
    name = f"{host}:{port}"
    try:
        return socket.create_connection((host, port), seconds)
    except (socket.gaierror, UnicodeError):
        fix = f"check the spelling of {field}, and the name service of this machine"
        raise Unreachable(f"the name {host} is not known here", fix) from None
    except ConnectionRefusedError:
        fix = f"check the port in {field}, and that the service runs"
        raise Unreachable(f"{name} refuses connections: nothing listens there", fix) from None
    except TimeoutError:
        fix = f"check {field}, and the firewall or proxy on the way"
        raise Unreachable(f"{name} gave no connection within {seconds:g} s", fix) from None
    except OSError as error:
        fix = f"check {field}, and the network of this machine"
        raise Unreachable(f"{name} cannot be reached: {error.strerror}", fix) from None


def _secured(field: str, connection: socket.socket, host: str, name: str, settings: Settings) -> str:
    context = tls_context(settings)
    try:
        with context.wrap_socket(connection, server_hostname=host) as tls:
            unverified = "" if context.check_hostname else ", its certificate not verified"
            return f"{tls.version()}{unverified}"
    except ssl.SSLCertVerificationError as error:
        unknown = (f"does not verify ({error.verify_message})", TRUST)
        what, fix = CERTIFICATES.get(error.verify_code, unknown)
        raise Unreachable(f"the certificate of {name} {what}", fix.format(field=field)) from None
    except TimeoutError:
        raise Unreachable(*_no_tls(field, name, "it does not answer")) from None
    except OSError as error:  # of ssl too; its reason is a name such as WRONG_VERSION_NUMBER
        raise Unreachable(*_no_tls(field, name, getattr(error, "reason", None) or error.strerror)) from None


def _no_tls(field: str, name: str, reason: object) -> tuple[str, str]:
    fix = f"check the port in {field}; where the service speaks no TLS, {field} begins with http://"
    return f"{name} answers, but makes no secure connection: {reason}", fix


def tls_context(settings: Settings) -> ssl.SSLContext:
    """
    What certificates are verified with, as the senders do it.

    :raises ConfigurationError: the environment names no file with CA certificates.
    :raises OSError: the file of CA certificates cannot be used.
    """
    make: Callable[..., ssl.SSLContext] = ssl.create_default_context
    if (ca_file := settings.ca_file()) is not None:
        return make(cafile=ca_file)
    context = make()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
