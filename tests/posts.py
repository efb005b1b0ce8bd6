"""An HTTP server that keeps what is posted to it: a stand-in for a collector of spans or of lineage."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

SPANS = "/v1/traces"


@dataclass(frozen=True)
class Posts:
    """
    What was posted so far.

    :param url: of the server.
    :param received: path and body of each request, decompressed, in order.
    """

    url: str
    received: list[tuple[str, bytes]] = field(default_factory=list)

    def bodies(self, path: str = "") -> list[bytes]:
        """The bodies of requests to a path; by default to any."""
        return [body for at, body in self.received if at == path or not path]

    def spans(self) -> list[Any]:
        """The spans of all requests of OTLP, which have protobuf messages as bodies."""
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

        return [
            span
            for body in self.bodies(SPANS)
            for of in ExportTraceServiceRequest.FromString(body).resource_spans
            for scope in of.scope_spans
            for span in scope.spans
        ]


@contextmanager
def post_server() -> Iterator[Posts]:
    """Start the server on a free port of 127.0.0.1; it ends with the block."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            posts.received.append(
                (self.path, gzip.decompress(body) if self.headers["Content-Encoding"] == "gzip" else body)
            )
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        posts = Posts(f"http://127.0.0.1:{server.server_port}")
        Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        try:
            yield posts
        finally:
            server.shutdown()
