"""Promotions (docs/service.md 8 and 14)."""

from __future__ import annotations

from airflow_provider_workflow.client import wire
from airflow_provider_workflow.client.arguments import segment
from airflow_provider_workflow.client.call import Call, Family


def unenroll_promotion(enrollment_id: str) -> Call[None]:
    """End a user's enrolment in a promotion, for the application (docs/service.md 8 and 14)."""
    path = f"/v2/promotions/{segment('enrollment_id', enrollment_id)}"
    return Call(
        "unenroll_promotion", "DELETE", Family.PROMOTIONS, path, wire.nothing, scope="promotions:write"
    )
