"""The notification webhook."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import Queue
from typing import Any

import pytest

from airflow_provider_workflow.emulator.server import EmulatorServer
from tests.unit.emulator.conftest import Api


class Receiver:
    """A web server that notes posts and the ends of connections, and can be made to dawdle."""

    def __init__(self) -> None:
        self.posted: Queue[dict[str, Any]] = Queue()
        self.closed: Queue[bool] = Queue()
        self.may_answer = threading.Event()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"  # connections stay open

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.posted.put(json.loads(body))
                receiver.may_answer.wait(5)
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def finish(self) -> None:
                super().finish()
                receiver.closed.put(True)

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/hook"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self.may_answer.set()
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    made.close()


def sent(api: Api, count: int) -> list[dict[str, Any]]:
    for _ in range(500):
        told: list[dict[str, Any]] = api("GET", "/_emulator/webhooks").json()["sent"]
        if len(told) >= count:
            return told
        time.sleep(0.01)
    raise AssertionError("the webhook was not sent")


def test_arrivals_are_posted_without_keeping_the_put_waiting(
    emulator: EmulatorServer, api: Api, receiver: Receiver
) -> None:
    inbox_id = emulator.open_inbox("orders")
    api("PATCH", f"/inboxes/{inbox_id}", {"notification_url": receiver.url})
    assert len(api.control("/messages", inbox="orders", payloads=[{}, {}])["ids"]) == 2
    body = {"inbox_id": inbox_id, "received_message_count": 2, "redelivery": False}
    assert receiver.posted.get(timeout=5) == body
    assert api("GET", "/_emulator/webhooks").json() == {"sent": []}  # the receiver still dawdles
    receiver.may_answer.set()
    assert sent(api, 1) == [{"url": receiver.url, "body": body, "status": 200}]


def test_a_receiver_that_is_not_there_harms_nobody(emulator: EmulatorServer, api: Api) -> None:
    inbox_id = emulator.open_inbox("orders")
    emulator.store.inboxes.update(inbox_id, "http://127.0.0.1:9/")
    assert emulator.put("orders", {})
    assert "Error" in sent(api, 1)[0]["status"]


def test_a_reset_closes_the_connection_to_a_receiver_and_later_arrivals_open_another(
    emulator: EmulatorServer, api: Api, receiver: Receiver
) -> None:
    receiver.may_answer.set()
    for _ in range(2):
        emulator.store.inboxes.update(emulator.open_inbox("orders"), receiver.url)
        emulator.put("orders", {})
        assert sent(api, 1)[0]["status"] == 200
        emulator.reset()
        assert receiver.closed.get(timeout=5)
