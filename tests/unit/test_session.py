"""The service is asked for one thing at a time, though a thread leases ahead and acknowledges behind."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import wait
from threading import Event, Lock
from typing import Any

import pytest

from airflow_provider_workflow.dispatch import session as module
from airflow_provider_workflow.dispatch.session import InboxSession
from tests.unit.workbench import INBOX, Workbench

PATIENCE_SECONDS = 10.0


class Users:
    """Counts who uses the hook at the same time."""

    def __init__(self) -> None:
        self.most = 0
        self._now = 0
        self._lock = Lock()

    def counted(self, method: Callable[..., Any], until: Event | None = None) -> Callable[..., Any]:
        """The same method; ``until`` is what it waits for first."""

        def use(*arguments: Any, **options: Any) -> Any:
            with self._lock:
                self._now += 1
                self.most = max(self.most, self._now)
            try:
                assert until is None or until.wait(PATIENCE_SECONDS)
                return method(*arguments, **options)
            finally:
                with self._lock:
                    self._now -= 1

        return use


def test_a_lease_that_was_not_asked_for_ahead_waits_for_the_acknowledgement(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    users, may_acknowledge = Users(), Event()
    acknowledges = users.counted(bench.hook.acknowledge_messages, may_acknowledge)
    monkeypatch.setattr(bench.hook, "lease_messages", users.counted(bench.hook.lease_messages))
    monkeypatch.setattr(bench.hook, "acknowledge_messages", acknowledges)

    def wait_until_it_may(futures: Any, timeout: float | None) -> Any:
        if futures:
            may_acknowledge.set()
        return wait(futures, timeout)

    monkeypatch.setattr(module, "wait", wait_until_it_may)
    bench.put(*"abc")
    with InboxSession(bench.hook, INBOX, alongside=True) as session:
        first = session.lease(1, 300)
        session.lease_ahead(1, 300)
        assert first is not None
        session.acknowledge(first, ["a"])
        assert session.lease(1, 300) is not None
        try:
            assert session.lease(1, 300) is not None
        finally:
            may_acknowledge.set()
    assert users.most == 1
    assert bench.states == {"b": "leased", "c": "leased"}
