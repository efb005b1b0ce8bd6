"""Notifiers that a triggerer and tasks of a real Airflow import; each reads a connection, as Slack's does."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

from airflow.sdk import BaseHook, BaseNotifier


class FileNotifier(BaseNotifier):
    """Writes a line into a file: how it was called, its text, and the host of a connection."""

    template_fields = ("text",)

    def __init__(self, path: str, text: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.path = path
        self.text = text

    def notify(self, context: Any) -> None:
        self.write("notify", BaseHook.get_connection("workflow_default").conn_type)

    def write(self, how: str, kind: str | None) -> None:
        main = threading.current_thread() is threading.main_thread()
        with Path(self.path).open("a") as file:
            file.write(json.dumps({"how": how, "main": main, "text": self.text, "connection": kind}) + "\n")


class AsyncFileNotifier(FileNotifier):
    """The same in an event loop."""

    async def async_notify(self, context: Any) -> None:
        connection = await BaseHook.aget_connection("workflow_default")
        self.write("async_notify", connection.conn_type)
