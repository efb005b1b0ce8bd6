"""The emulator with one face: its rules called directly, or the same over HTTP."""

from __future__ import annotations

from typing import Any, ClassVar, Protocol

import requests

from airflow_provider_workflow.emulator.clock import ManualClock
from airflow_provider_workflow.emulator.rules.errors import ServiceError
from airflow_provider_workflow.emulator.rules.store import Store
from airflow_provider_workflow.emulator.server import EmulatorServer
from airflow_provider_workflow.emulator.settings import Settings

PAGE = 3
Answer = tuple[int, dict[str, Any]]


class Service(Protocol):
    """An inbox of the emulator, and its clock."""

    store: Store
    inbox_id: str

    def ask(self, operation: str, **arguments: Any) -> Answer:
        """Status and body of the answer to ``lease``, ``ack``, ``release``, ``pause`` and the like."""

    def listed(self) -> list[dict[str, Any]]:
        """All messages of the inbox, page by page."""

    def begin(self) -> None:
        """Another inbox, which is empty."""

    def close(self) -> None:
        """The end."""


class ByCall:
    """The rules alone."""

    def __init__(self) -> None:
        self.store = Store(ManualClock(), Settings(page_size=PAGE))
        self.begin()

    def begin(self) -> None:
        self.inbox_id = self.store.inboxes.open("orders").id

    def ask(self, operation: str, **arguments: Any) -> Answer:
        leases, inboxes = self.store.messages, self.store.inboxes
        calls: dict[str, Any] = {
            "lease": leases.lease,
            "ack": leases.acknowledge,
            "release": leases.release,
            "pause": inboxes.pause,
            "resume": inboxes.resume,
            "delete": inboxes.delete,
        }
        try:
            body = calls[operation](
                self.inbox_id, **_named(arguments, lease_seconds="lease_seconds", message_ids="ids")
            )
        except ServiceError as error:
            return error.status, error.body
        done = isinstance(body, dict) and any(
            body.get(key) for key in ("lease_id", "acked_id", "released_id")
        )
        return (201 if done else 200), body if isinstance(body, dict) else {}

    def listed(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        cursor = None
        while True:
            messages, cursor = self.store.messages.page(self.inbox_id, PAGE, cursor)
            found += messages
            if cursor is None:
                return found

    def close(self) -> None:
        self.store.close()


class ByHttp:
    """The same on the wire, with an HTTP client that shares nothing with the package's own."""

    ROUTES: ClassVar[dict[str, tuple[str, str]]] = {
        "lease": ("POST", "/messages/lease"),
        "ack": ("POST", "/messages/ack"),
        "release": ("POST", "/messages/release"),
        "pause": ("POST", "/pause"),
        "resume": ("POST", "/resume"),
        "delete": ("DELETE", ""),
    }

    def __init__(self, server: EmulatorServer) -> None:
        server.reset()
        server.store.configure(page_size=PAGE)
        self.server = server
        self.store = server.store
        self.session = requests.Session()
        self.session.trust_env = False
        self.session.headers["Authorization"] = f"Bearer {server.token()}"
        self.begin()

    def begin(self) -> None:
        self.inbox_id = self.server.open_inbox("orders")
        self.url = f"{self.server.base_url}/trigger-inbox/v1/inboxes/{self.inbox_id}"

    def ask(self, operation: str, **arguments: Any) -> Answer:
        method, path = self.ROUTES[operation]
        # An app token lasts 10 hours of the emulator's clock, which goes further than that.
        self.session.headers["Authorization"] = f"Bearer {self.server.token()}"
        answer = self.session.request(method, self.url + path, json=arguments, timeout=10)
        return answer.status_code, answer.json()

    def listed(self) -> list[dict[str, Any]]:
        self.session.headers["Authorization"] = f"Bearer {self.server.token()}"
        found: list[dict[str, Any]] = []
        address = f"{self.url}/messages"
        while address:
            page = self.session.get(address, timeout=10).json()
            found += page["results"]
            address = page["next"]
        return found

    def close(self) -> None:
        self.session.close()
        self.server.reset()


def _named(arguments: dict[str, Any], **names: str) -> dict[str, Any]:
    return {names.get(name, name): value for name, value in arguments.items()}
