"""What is of the machine, and what the package keeps for the whole process, reset for each test."""

from __future__ import annotations

import pytest

from airflow_provider_workflow.pytest_plugin import reset as forget

__all__ = ["forget", "isolated"]
FROM_ENVIRONMENT = (
    *("http_proxy", "https_proxy", "all_proxy", "no_proxy"),
    *("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE", "SSL_CERT_DIR"),
)


@pytest.fixture(autouse=True)
def isolated(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine's proxies and certificates reach no test."""
    for name in FROM_ENVIRONMENT:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
