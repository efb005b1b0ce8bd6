"""A statsd server that adds up what Airflow's processes send it."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections import Counter, defaultdict

PREFIX = "airflow.workflow."


class Statsd:
    """
    Listens on a UDP port of loopback, from which nothing of this size is lost.

    Names come with their tags, as InfluxDB has them: ``airflow.workflow.inbox.leased,inbox=orders,...:5|c``.
    """

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_000_000)
        self._socket.bind(("127.0.0.1", 0))
        self._counts: dict[str, Counter[str]] = defaultdict(Counter)
        self._gauges: dict[str, list[float]] = defaultdict(list)

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

    def counts(self, inbox: str) -> dict[str, int]:
        """The counters of an inbox."""
        return dict(self._counts[inbox])

    def gauges(self, inbox: str) -> list[float]:
        """The values of the one gauge of an inbox, in their order."""
        return list(self._gauges[inbox])

    def _listen(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                for line in self._socket.recv(65536).decode().splitlines():
                    self._take(line)

    def _take(self, line: str) -> None:
        name, _, rest = line.partition(",")
        tags, _, measured = rest.rpartition(":")
        if not name.startswith(PREFIX):
            return
        inbox = dict(tag.split("=") for tag in tags.split(",")).get("inbox", "")
        value, kind = measured.split("|")[:2]
        if kind == "c":
            self._counts[inbox][name.rpartition(".")[2]] += int(value)
        else:
            self._gauges[inbox].append(float(value))
