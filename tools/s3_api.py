"""
Serve an S3 API, moto's, on a free port of loopback, and print its address.

``.ci/run`` starts ``python -m tools.s3_api`` for the end-to-end tests. It serves until it is ended, keeps all
objects in memory, and takes any credentials.
"""

from __future__ import annotations

import logging
import signal

from moto.server import ThreadedMotoServer


def quiet() -> None:
    """Keep moto's server from writing a line for each request."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)


def main() -> None:
    """Serve."""
    quiet()
    server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    print(f"http://{host}:{port}", flush=True)
    signal.pause()


if __name__ == "__main__":
    main()
