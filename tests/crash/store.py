"""The payload store of a crash test, on a disk or behind an S3 API, and how it goes away for a while."""

from __future__ import annotations

import secrets
import shutil
import threading
from abc import ABC, abstractmethod
from pathlib import Path

from moto.server import ThreadedMotoServer

from tests.e2e.object_storage import CONN_ID, ObjectStorage
from tools.s3_api import quiet

PREFIX = "AIRFLOW__WORKFLOW__PAYLOAD_OBJECTSTORAGE"


class Store(ABC):
    """A store that this process can take away."""

    @property
    @abstractmethod
    def settings(self) -> dict[str, str]:
        """Environment variables that lead to it."""

    @abstractmethod
    def take_away(self) -> None:
        """Let every write and read fail."""

    @abstractmethod
    def bring_back(self) -> None:
        """Let them succeed again, with all objects."""

    def take_away_for(self, seconds: float, after: float) -> None:
        """
        Take it away once, without waiting for it.

        :param seconds: for how long.
        :param after: seconds from now.
        """
        for action, at in ((self.take_away, after), (self.bring_back, after + seconds)):
            timer = threading.Timer(at, action)
            timer.daemon = True
            timer.start()


class DiskStore(Store):
    """
    A folder. While it is away, a file is in its place, which stops the user root too.

    :param folder: with all objects.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()

    @property
    def settings(self) -> dict[str, str]:
        return {f"{PREFIX}_PATH": f"file://{self.folder}"}

    def take_away(self) -> None:
        shutil.move(self.folder, self.folder.with_suffix(".away"))
        self.folder.touch()

    def bring_back(self) -> None:
        self.folder.unlink()
        shutil.move(self.folder.with_suffix(".away"), self.folder)


class S3Store(Store):
    """A bucket of an S3 API in this process. While it is away, its port refuses connections."""

    def __init__(self) -> None:
        quiet()
        self._server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
        self._server.start()
        host, self._port = self._server.get_host_and_port()
        self._storage = ObjectStorage(f"http://{host}:{self._port}", secrets.token_hex(16))
        self._bucket = self._storage.create_bucket()

    @property
    def settings(self) -> dict[str, str]:
        return {
            f"{PREFIX}_PATH": self._bucket.path,
            f"AIRFLOW_CONN_{CONN_ID.upper()}": self._storage.connection_json,
        }

    def take_away(self) -> None:
        self._server.stop()

    def bring_back(self) -> None:
        # The objects are not the server's, but those of this process.
        self._server = ThreadedMotoServer("127.0.0.1", port=self._port, verbose=False)
        self._server.start()


def store_of(kind: str, home: Path) -> Store | None:
    """
    The store of a crash test.

    :param kind: ``disk``, ``s3``, or empty for none.
    :param home: where a disk may have its folder.
    :raises ValueError: there is no such kind.
    """
    if kind == "disk":
        return DiskStore(home / "payloads")
    if kind == "s3":
        return S3Store()
    if kind:
        raise ValueError(f"STORE={kind}: it is disk or s3")
    return None
