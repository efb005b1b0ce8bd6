"""What the client keeps for the whole process, made new for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from airflow_provider_workflow.client import inboxes, unverified
from airflow_provider_workflow.client.retry import GATES
from airflow_provider_workflow.client.token_cache import TOKENS

FROM_ENVIRONMENT = (
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
)


def forget() -> None:
    TOKENS.__init__()  # type: ignore[misc]
    GATES.__init__()  # type: ignore[misc]
    inboxes._known.clear()
    unverified._named.clear()


@pytest.fixture(autouse=True)
def isolated(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Tokens, rate gates and names of another test, and the machine's proxies, reach no test."""
    for name in FROM_ENVIRONMENT:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    forget()
    yield
    forget()
