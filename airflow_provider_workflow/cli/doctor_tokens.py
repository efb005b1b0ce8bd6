"""What ``doctor`` finds out of tokens: the client's, the scope, a user's, and whether inboxes take them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timezone

from airflow_provider_workflow.cli.doctor_findings import FAILED, OK, SKIPPED, WARNING, Finding, Subject
from airflow_provider_workflow.client import api
from airflow_provider_workflow.client.auth import token_key
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
from airflow_provider_workflow.client.retry import Gates
from airflow_provider_workflow.client.settings import USER_GRANT
from airflow_provider_workflow.client.token_cache import TokenCache
from airflow_provider_workflow.client.user_tokens import UserTokens
from airflow_provider_workflow.clock import now
from airflow_provider_workflow.hooks.login import check_store
from airflow_provider_workflow.hooks.masking import mask
from airflow_provider_workflow.hooks.trial import plain_reason
from airflow_provider_workflow.hooks.user_tokens import VariableStore

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
            yield Finding("client", FAILED, plain_reason(error), _cure_of_token(error))


def _cure_of_token(error: WorkflowError) -> str:
    if isinstance(error, AuthenticationError) and (
        error.status in (401, 403) or "client" in (error.code or "")
    ):
        return (
            "copy Client ID and Client secret once more from where your application is administered;"
            " a secret that was regenerated makes the former one invalid"
        )
    return _cure(error, "Token URL", "it has to be the token endpoint, exactly as the service gives it")


def _cure(error: WorkflowError, field: str, otherwise: str) -> str:
    if isinstance(error, RateLimitError):
        return "too many requests were made; try again later"
    if isinstance(error, ServerError):
        return "the service itself fails; try again later"
    if isinstance(error, TransportError) and not error.sent:
        return f"check {field}, and the network between"
    return f"check {field}: {otherwise}"


def scope(subject: Subject) -> Iterator[Finding]:
    asked = subject.settings.scope
    cure = f"set Scope to {INBOX_SCOPE}, or leave it empty"
    if subject.scope_refused is not None:
        yield Finding("scope", FAILED, f"{asked}: {plain_reason(subject.scope_refused)}", cure)
        return
    granted = subject.issued.scope if subject.issued else ""
    if INBOX_SCOPE not in granted.split():
        detail = f"the token was issued for {granted or 'no scope'}; trigger inboxes need {INBOX_SCOPE}"
        yield Finding("scope", FAILED, detail, cure)
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
        cure = "synchronise this machine's clock (NTP): leases are measured by it"
        yield Finding("clock", WARNING, f"{apart}: this one is {way}", cure)


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
        cure = "the next task or trigger renews it; examine again afterwards"
        yield Finding("inbox_api", SKIPPED, str(error), cure)
    except WorkflowError as error:
        yield Finding("inbox_api", FAILED, plain_reason(error), _cure_of_api(error, subject))


def _cure_of_api(error: WorkflowError, subject: Subject) -> str:
    if isinstance(error, AuthenticationError) and error.code == "invalid_audience":
        if subject.settings.grant == USER_GRANT:
            return f"log in again with the scope {INBOX_SCOPE}"
        return f"set Scope to {INBOX_SCOPE}; and Token URL and Base URL have to be of the same service"
    if isinstance(error, AuthenticationError):
        return "have your application allowed to use trigger inboxes"
    if isinstance(error, NotFoundError):
        return f"check Inbox path ({subject.settings.inbox_path}) and Base URL"
    return _cure(error, "Base URL and Inbox path", "there has to be the API of the service")
