"""``WorkflowUnenrollOperator``: ends a user's enrollment in a promotion."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypedDict

from airflow_provider_workflow.client.arguments import flag
from airflow_provider_workflow.operators.base import WorkflowOperator, end_if_present
from airflow_provider_workflow.options import check_string

if TYPE_CHECKING:
    from airflow.sdk import Context


class Unenrollment(TypedDict):
    """The id of the enrollment, and whether this call ended it; False if it did not exist."""

    enrollment_id: str
    unenrolled: bool


class WorkflowUnenrollOperator(WorkflowOperator):
    """
    Ends a user's enrollment in a promotion, on behalf of the application (docs/service.md 8 and 14).

    It uses an app token with the scope ``promotions:write``, whatever the connection's scope is. It is
    idempotent: it succeeds if the enrollment does not exist.

    :param enrollment_id: id of the enrollment (templated).
    :param missing_ok: False fails the task if the enrollment does not exist; then a retry after a lost
        answer fails too.
    :param workflow_conn_id: id of the Airflow connection (templated).
    """

    template_fields: Sequence[str] = ("enrollment_id", *WorkflowOperator.template_fields)
    STRINGS = {"enrollment_id": (), **WorkflowOperator.STRINGS}  # noqa: RUF012 see RendersStrings

    def __init__(self, *, enrollment_id: str, missing_ok: bool = True, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.enrollment_id = check_string("enrollment_id", enrollment_id)
        self.missing_ok = flag("missing_ok", missing_ok)

    def execute(self, context: Context) -> Unenrollment:  # noqa: ARG002 Airflow's signature
        """
        End the enrollment.

        :raises NotFoundError: there is no such enrollment, and ``missing_ok`` is False.
        :raises AuthenticationError: the application is not permitted to do this.
        :raises WorkflowError: the service cannot be used.
        """
        done = end_if_present(
            f"Enrollment {self.enrollment_id}",
            "ended",
            lambda: self.hook.unenroll_promotion(self.enrollment_id),
            self.missing_ok,
        )
        return {"enrollment_id": self.enrollment_id, "unenrolled": done}
