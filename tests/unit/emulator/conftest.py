"""The rules without HTTP, and a small HTTP client that shares nothing with the package's own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import requests

from airflow_provider_workflow.emulator.clock import ManualClock
from airflow_provider_workflow.emulator.rules.store import Store
from airflow_provider_workflow.emulator.server import EmulatorServer
from airflow_provider_workflow.emulator.settings import Settings

BASIC = ("demo-client", "demo-secret")
REDIRECT = "http://127.0.0.1:8900/callback"
PAGE = {
    "response_type": "code",
    "client_id": BASIC[0],
    "redirect_uri": REDIRECT,
    "scope": "workflow workflow:write",
    "response_mode": "query",
    "state": "s t&",
}
"""What the authorization page is opened with."""


@pytest.fixture
def store() -> Store:
    """The rules alone, with a clock that stands still."""
    return Store(ManualClock(), Settings())


@pytest.fixture
def inbox_id(store: Store) -> str:
    return store.inboxes.open("orders").id


class Api:
    """Calls the service as a client would."""

    def __init__(self, server: EmulatorServer) -> None:
        self.server = server
        self.session = requests.Session()
        self.session.trust_env = False
        self.session.headers["Authorization"] = f"Bearer {server.token()}"

    def __call__(self, method: str, path: str, json: Any = None, **more: Any) -> requests.Response:
        """Call ``path``; below the inbox prefix when it begins with ``/inboxes``."""
        prefix = "/trigger-inbox/v1" if path.startswith("/inboxes") else ""
        more.setdefault("timeout", 10)
        more.setdefault("allow_redirects", False)
        return self.session.request(method, self.server.base_url + prefix + path, json=json, **more)

    def control(self, path: str, /, **body: Any) -> dict[str, Any]:
        """Call a control route, which has to succeed."""
        response = self("POST", f"/_emulator{path}", body)
        assert response.ok, response.text
        answer: dict[str, Any] = response.json()
        return answer


@pytest.fixture
def api(emulator: EmulatorServer) -> Iterator[Api]:
    """A client of ``emulator`` with an app token of scope ``external``."""
    client = Api(emulator)
    yield client
    client.session.close()
