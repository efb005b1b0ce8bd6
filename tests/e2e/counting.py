"""A statsd server that keeps what Airflow's processes send it."""

from __future__ import annotations

import contextlib
import re
import socket
import threading
from collections import defaultdict


class Statsd:
    """
    Listens on a UDP port of loopback, from which nothing of this size is lost.

    Names come with their tags, as InfluxDB has them: ``airflow.workflow.inbox.leased,inbox=orders,...:5|c``.
    """

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_000_000)
        self._socket.bind(("127.0.0.1", 0))
        self._lines: list[str] = []

    def __enter__(self) -> Statsd:
        threading.Thread(target=self._listen, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    @property
    def settings(self) -> dict[str, str]:
        """What makes an Airflow send its metrics here; of its own it sends none."""
        host, port = self._socket.getsockname()
        return {
            "AIRFLOW__METRICS__STATSD_ON": "True",
            "AIRFLOW__METRICS__STATSD_HOST": host,
            "AIRFLOW__METRICS__STATSD_PORT": str(port),
            "AIRFLOW__METRICS__STATSD_INFLUXDB_ENABLED": "True",
            "AIRFLOW__METRICS__METRICS_ALLOW_LIST": r"^workflow\.",
        }

    def values(self, inbox: str, kind: str) -> dict[str, list[float]]:
        """
        What was sent of an inbox, by the last part of its name.

        :param kind: "c" for counters, "g" for gauges.
        """
        values: dict[str, list[float]] = defaultdict(list)
        for line in list(self._lines):
            if match := re.fullmatch(r"airflow\.workflow\.([\w.]+),(.*):([\d.]+)\|" + kind, line):
                name, tags, value = match.groups()
                if f"inbox={inbox}" in tags.split(","):
                    values[name.rpartition(".")[2]].append(float(value))
        return values

    def _listen(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                self._lines += self._socket.recv(65536).decode().splitlines()
