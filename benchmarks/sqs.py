"""
Queues of a local SQS, moto's server, in a process of its own; it counts the polls.

``python -m benchmarks.sqs`` serves until it is ended, and prints its port first.
"""

from __future__ import annotations

import itertools
import json
import logging
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import requests

POLLS = "/polls"
POLL = "AmazonSQS.ReceiveMessage"
REGION = "us-east-1"


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
        """Create a queue; its URL."""
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

    command = [sys.executable, "-m", "benchmarks.sqs"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            url = f"http://127.0.0.1:{int(process.stdout.readline())}"
            keys = {"aws_access_key_id": "anybody", "aws_secret_access_key": "any"}
            yield Queues(url, boto3.client("sqs", endpoint_url=url, region_name=REGION, **keys))
        finally:
            process.kill()


def counting(application: Callable[..., Iterable[bytes]]) -> Callable[..., Iterable[bytes]]:
    """A WSGI application that also counts the polls among its requests, and tells how many they were."""
    numbers, polls = itertools.count(1), [0]

    def counting_application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        if environ["PATH_INFO"] == POLLS:
            start_response("200 OK", [("Content-Type", "text/plain")])
            return [str(polls[0]).encode()]
        if environ.get("HTTP_X_AMZ_TARGET") == POLL:
            polls[0] = next(numbers)
        return application(environ, start_response)

    return counting_application


def main() -> None:
    """Serve."""
    from moto.moto_server.werkzeug_app import (
        DomainDispatcherApplication,
        MotoRequestHandler,
        create_backend_app,
    )
    from werkzeug.serving import make_server

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    application = counting(DomainDispatcherApplication(create_backend_app))
    handler = MotoRequestHandler
    server = make_server("127.0.0.1", 0, application, threaded=True, request_handler=handler)
    print(server.port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
