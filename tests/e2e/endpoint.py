"""``python endpoint.py PORT FILE``: the notification endpoint without Airflow; events are lines of a file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.routing import Mount

from airflow_provider_workflow.plugin.asset_events import Outcome
from airflow_provider_workflow.plugin.notify import NotificationEndpoint, NotificationQueue


def main(port: int, events: Path) -> None:
    """Listen until SIGTERM. Uvicorn logs requests to stdout."""

    def record(uri: str, _: dict[str, Any]) -> Outcome:
        with events.open("a") as file:
            file.write(f"{uri}\n")
        return Outcome.RECORDED

    endpoint = NotificationEndpoint(NotificationQueue(record))
    uvicorn.run(Starlette(routes=[Mount("/workflow/notify", endpoint)]), port=port)


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
