"""What Airflow reads of this provider when it discovers providers."""

from __future__ import annotations

from typing import Any


def get_provider_info() -> dict[str, Any]:
    return {
        "package-name": "airflow-provider-workflow",
        "name": "Workflow",
        "description": "Trigger inbox messages become DAG runs, exactly one each.",
    }
