"""Which messages a watcher has put into asset events lately, beyond a crash of the triggerer."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowRuntimeError

from airflow_provider_workflow.values import plain

if TYPE_CHECKING:
    from airflow.sdk.execution_time.context import AssetStateStoreAccessors

log = logging.getLogger(__name__)

MOST_REMEMBERED = 2000
"""Messages. At 16 bytes for each they stay within the 64 KB that Airflow stores without a warning."""

_remembered: dict[tuple[str, str], dict[str, None]] = {}


class Emitted:
    """
    The messages of an inbox that went into events of an asset, as far as they are remembered.

    They are kept in the memory of this process and, from Airflow 3.3.2 on, in the asset's state store:
    what a triggerer emitted before it was killed is known to the next one.

    :param store: Airflow's own, which it gives to the trigger of an asset; None where it gives none.
    :param stream: tells inboxes apart.
    """

    def __init__(self, store: AssetStateStoreAccessors | None, stream: str) -> None:
        self._store: Any = store if hasattr(store, "aset") else None
        self._key = f"workflow_emitted_{_mark(stream)}"
        # Triggers of one asset share it: whoever the event came from, the asset has seen the message.
        self._marks = _remembered.setdefault((repr(store), stream), {})
        self._complained = False

    async def recall(self) -> None:
        """Read what a process before this one stored; where that cannot be read, go on without."""
        if self._store is None:
            return
        try:
            stored = await self._store.aget(self._key)
        except Exception as error:
            self._complain(error)
            return
        if isinstance(stored, list):
            newer = dict(self._marks)
            self._marks.clear()
            self._add([*map(str, stored), *newer])

    def among(self, ids: Collection[str]) -> frozenset[str]:
        """Those of these messages that were emitted before."""
        return frozenset(each for each in ids if _mark(each) in self._marks)

    async def remember(self, ids: Collection[str]) -> bool:
        """
        Remember that these were just emitted.

        :return: whether Airflow answered. It answers nothing any more once it has begun to stop its
            triggers, and an event that was made then may never be stored.
        """
        self._add([_mark(each) for each in ids])
        if self._store is None:
            return False
        try:
            await self._store.aset(self._key, list(self._marks))
        except AirflowRuntimeError as error:
            self._complain(error)
        except Exception as error:
            self._complain(error)
            return False
        return True

    def _add(self, marks: list[str]) -> None:
        for mark in marks:
            self._marks.pop(mark, None)
            self._marks[mark] = None
        while len(self._marks) > MOST_REMEMBERED:
            del self._marks[next(iter(self._marks))]

    def _complain(self, error: Exception) -> None:
        if not self._complained:
            log.warning(
                "The asset's state store cannot be used (%s: %s); messages that come again after a restart"
                " of the triggerer are not marked",
                type(error).__name__,
                plain(str(error)),
            )
        self._complained = True


def _mark(text: str) -> str:
    """12 hexadecimal digits for a message or an inbox."""
    return hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=6).hexdigest()
