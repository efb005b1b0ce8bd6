"""
Queues of a local SQS, moto's server, in a process of its own; it counts the polls.

``python -m benchmarks.sqs`` serves until it is ended, and prints its port first.
"""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import requests

COMMAND = [sys.executable, "-m", "benchmarks.sqs"]
POLLS = "/polls"
POLL = "AmazonSQS.ReceiveMessage"
REGION = "us-east-1"
STOP_SECONDS = 20

Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


@dataclass(frozen=True)
class Queues:
    """
    Where they are.

    :param url: of the server.
    :param client: of boto3.
    """

    url: str
    client: Any

    @property
    def connection(self) -> str:
        """The Airflow connection to them, as JSON."""
        extra = {"region_name": REGION, "endpoint_url": self.url}
        return json.dumps({"conn_type": "aws", "login": "anybody", "password": "any", "extra": extra})

    def open_queue(self, name: str) -> str:
        """Create a queue; its address."""
        return str(self.client.create_queue(QueueName=name)["QueueUrl"])

    def send(self, queue_url: str, body: dict[str, Any]) -> None:
        """Send one message."""
        self.client.send_message(QueueUrl=queue_url, MessageBody=json.dumps(body))

    def polls(self) -> int:
        """How often somebody asked for messages so far."""
        return int(requests.get(self.url + POLLS, timeout=30).text)


@contextmanager
def queues() -> Iterator[Queues]:
    """Start the server, and stop it in the end."""
    import boto3

    with subprocess.Popen(COMMAND, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            url = f"http://127.0.0.1:{int(process.stdout.readline())}"
            keys = {"aws_access_key_id": "anybody", "aws_secret_access_key": "any"}
            yield Queues(url, boto3.client("sqs", endpoint_url=url, region_name=REGION, **keys))
        finally:
            process.terminate()
            process.wait(STOP_SECONDS)


class Counting:
    """
    Counts the polls that an application is asked for, and tells how many they were.

    :param application: by WSGI; requests are served in threads.
    """

    def __init__(self, application: Application) -> None:
        self._application = application
        self._lock = threading.Lock()
        self._polls = 0

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        if environ["PATH_INFO"] == POLLS:
            start_response("200 OK", [("Content-Type", "text/plain")])
            return [str(self._polls).encode()]
        if environ.get("HTTP_X_AMZ_TARGET") == POLL:
            with self._lock:
                self._polls += 1
        return self._application(environ, start_response)


def main() -> None:
    """Serve."""
    from moto.moto_server.werkzeug_app import (
        DomainDispatcherApplication,
        MotoRequestHandler,
        create_backend_app,
    )
    from werkzeug.serving import make_server

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    application = Counting(DomainDispatcherApplication(create_backend_app))
    handler = MotoRequestHandler
    server = make_server("127.0.0.1", 0, application, threaded=True, request_handler=handler)
    print(server.port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
