"""
Payloads in the user's own object storage, and their references in the confs of runs.

With ``[workflow] payload_objectstorage_path`` a payload of at least ``payload_objectstorage_threshold`` bytes
is written there before its run is started. The message in the conf has its name, digest and size instead
(``payload_object``, ``payload_sha256``, ``payload_bytes``). Run, dead letter and replay share the object.

An object is named by its inbox, its message and the SHA-256 of its content, and holds that content or
nothing. So a redelivery, another process, and another message with the same business key write the same
bytes, or another object.

A conf has the name *below* the path, and its digest is checked: a user who may start runs chooses neither
where a worker reads nor what it reads as the payload of a message.

Nothing is ever deleted: that is the lifecycle rule of the bucket (``docs/payloads.md``).
"""

from __future__ import annotations

import hashlib
import os
import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from airflow_provider_workflow import config
from airflow_provider_workflow.client import tolerant_json
from airflow_provider_workflow.source import NO_STORE, SourceError, SourceProblem
from airflow_provider_workflow.text import escaped

if TYPE_CHECKING:
    from airflow.sdk import ObjectStoragePath

REFERENCE = ("payload_object", "payload_sha256", "payload_bytes")
"""The fields of a message whose payload is in the store."""
CHECK_NAME, CHECK_CONTENT = "check.json", b"{}"
"""The object that is written to find out whether the store can be used."""
ON_DISK = ("file", "local", "")
"""Protocols of a path on a disk of this machine, or one that it has mounted."""
_SAFE_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_OBJECT = re.compile(r"[A-Za-z0-9_-]{1,64}/(?P<message>[0-9a-f]{32})/(?P<sha256>[0-9a-f]{64})\.json")


class PayloadStoreError(SourceError):
    """
    The payload store cannot be used, or a payload is not there as it was written. No message is lost.

    :param text: what is wrong, and the fix.
    """

    def __init__(self, text: str) -> None:
        super().__init__(SourceProblem(NO_STORE, text))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.problem.text,)


def digest_of(payload: Any) -> str:
    """The SHA-256 of a payload as it is stored."""
    return hashlib.sha256(tolerant_json.dumped(payload).encode()).hexdigest()


def payload_of(message: Mapping[str, Any]) -> Any:
    """
    The payload of a message with a reference.

    :raises PayloadStoreError: it cannot be read, or this process has no store.
    """
    store = PayloadStore.configured()
    if store is None:
        raise PayloadStoreError(
            f"The payload of message {escaped(str(message.get('id')))} is in a payload store, and this"
            " process has none: set [workflow] payload_objectstorage_path, as on the worker that started the"
            " run"
        )
    return store.read(message)


@dataclass(frozen=True)
class PayloadStore:
    """
    A folder of an object storage.

    :param path: ``[workflow] payload_objectstorage_path``, such as ``s3://connection_id@bucket/folder`` or
        ``file:///folder``.
    :param threshold: ``[workflow] payload_objectstorage_threshold``: a payload of this many bytes or more is
        stored, 0 for every payload.
    """

    path: str
    threshold: int

    @classmethod
    def configured(cls) -> PayloadStore | None:
        """
        The store of ``[workflow]``; None if payloads stay in the confs of runs.

        :raises PayloadStoreError: an option is invalid; the text names it.
        """
        try:
            path = config.payload_objectstorage_path()
            return cls(path, config.payload_objectstorage_threshold()) if path else None
        except Exception as error:  # whatever Airflow's configuration raises for a value
            raise PayloadStoreError(
                "[workflow] payload_objectstorage_path or payload_objectstorage_threshold cannot be read:"
                f" {type(error).__name__}. The threshold is a number of bytes"
            ) from None

    @property
    def is_on_disk(self) -> bool:
        """Whether it is on a disk: of this machine, or one that it has mounted."""
        return urlsplit(self.path).scheme in ON_DISK

    def check(self, *, read: bool = False) -> None:
        """
        Find out whether a payload can be written.

        :param read: whether to read it too.
        :raises PayloadStoreError: it cannot.
        """
        self.write(CHECK_NAME, CHECK_CONTENT)
        if read:
            self.text_at(CHECK_NAME, hashlib.sha256(CHECK_CONTENT).hexdigest(), "of no message")

    def with_reference(self, inbox_id: str, message: dict[str, Any]) -> dict[str, Any]:
        """
        A message as a conf or an XCom has it; its payload is written before, unless it is small.

        :param message: as the service sent it.
        :raises PayloadStoreError: the payload cannot be written.
        """
        content = tolerant_json.dumped(message["payload"]).encode()
        if len(content) < self.threshold:
            return message
        digest = hashlib.sha256(content).hexdigest()
        inbox = inbox_id if _SAFE_ID.fullmatch(inbox_id) else _hash_of(inbox_id)
        name = f"{inbox}/{_hash_of_id(message['id'])}/{digest}.json"
        self.write(name, content)
        return {
            **message,
            "payload": None,
            "payload_object": name,
            "payload_sha256": digest,
            "payload_bytes": len(content),
        }

    def read(self, message: Mapping[str, Any]) -> Any:
        """
        The payload of a message with a reference.

        :raises PayloadStoreError: it is missing, was changed, or cannot be read; or the reference is not one
            that ``with_reference`` made for this message.
        """
        name, digest, message_id = message["payload_object"], message.get("payload_sha256"), message.get("id")
        match = _OBJECT.fullmatch(name) if isinstance(name, str) else None
        if (
            match is None
            or not isinstance(message_id, str)
            or (match["message"], match["sha256"]) != (_hash_of_id(message_id), digest)
        ):
            raise PayloadStoreError(
                f"payload_object of message {escaped(str(message_id))} is not the name of its payload:"
                f" {escaped(str(name))}"
            )
        return tolerant_json.decode(
            last_text(self, name, match["sha256"], f"of message {escaped(message_id)}")
        )

    @cached_property
    def root(self) -> ObjectStoragePath:
        """The folder."""
        from airflow.sdk import ObjectStoragePath

        return ObjectStoragePath(self.path)

    def write(self, name: str, content: bytes) -> None:
        """
        Write an object.

        :param name: below the folder.
        :raises PayloadStoreError: that failed.
        """
        try:
            target = self.root / name
            if self.is_on_disk:
                write_to_disk(Path(target.path), content)
            else:
                target.write_bytes(content)
        except Exception as error:  # whatever a storage raises
            raise PayloadStoreError(
                f"The payload store {escaped(self.path)} cannot be written: {_cause(error)}. No message is"
                " lost. Check [workflow] payload_objectstorage_path with airflow-workflow doctor"
            ) from None

    def text_at(self, name: str, digest: str, of_message: str) -> str:
        """
        The content of an object.

        :param digest: the SHA-256 that it must have.
        :param of_message: whose payload it is, for the error.
        :raises PayloadStoreError: it is missing, was changed, or cannot be read.
        """
        place = f"{of_message} in the payload store {escaped(self.path)}: {name}"
        try:
            content = (self.root / name).read_bytes()
        except FileNotFoundError:
            raise PayloadStoreError(
                f"There is no payload {place}. The lifecycle rule of the bucket may have deleted it, or"
                " payload_objectstorage_path was changed"
            ) from None
        except Exception as error:  # whatever a storage raises
            raise PayloadStoreError(f"The payload {place} cannot be read: {_cause(error)}") from None
        if hashlib.sha256(content).hexdigest() != digest:
            raise PayloadStoreError(f"The payload {place} was changed")
        return content.decode()


@lru_cache(maxsize=1)
def last_text(store: PayloadStore, name: str, digest: str, of_message: str) -> str:
    """
    The content of an object. The last result is cached: templates and functions ask for many parts of a
    message.

    See :meth:`PayloadStore.text_at`.
    """
    return store.text_at(name, digest, of_message)


def write_to_disk(path: Path, content: bytes) -> None:
    """Write a file that has its whole content or does not exist, also if the machine fails."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{uuid.uuid4().hex}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _hash_of(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:32]


def _hash_of_id(message_id: str) -> str:
    """The hash of a message id, which is the same if a conf has the id escaped."""
    return _hash_of(escaped(message_id, len(message_id)))


def _cause(error: Exception) -> str:
    """The cause of an error of a storage, in a few words."""
    return f"{type(error).__name__}: {escaped(str(error), 200)}"
