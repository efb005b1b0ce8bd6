"""Callbacks and notifiers that record what they are called with, also from where a trigger imports them."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from airflow.sdk import BaseNotifier

from airflow_provider_workflow import clock

calls: list[Any] = []
"""What was called in a trigger."""
threads: list[str] = []
"""Names of the threads in which that was."""


def record(said: Any) -> None:
    calls.append(said)
    threads.append(threading.current_thread().name)


class Notifier(BaseNotifier):
    """A notifier as providers write them: its text is a template."""

    template_fields = ("text",)

    def __init__(self, text: str = "{{ workflow.event }}", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.text = text

    def notify(self, context: Any) -> None:
        record(self.text)


class AsyncNotifier(Notifier):
    """One that can do both."""

    async def async_notify(self, context: Any) -> None:
        await asyncio.sleep(0)
        record(f"async {self.text}")


async def coroutine(context: Any, to: str) -> None:
    record((to, context))


def function(to: str) -> None:
    record(to)


def fails(context: Any) -> None:
    raise RuntimeError("a secret")


async def sleeps_for_an_hour() -> None:
    await clock.async_sleep(3600)
    record("slept")
