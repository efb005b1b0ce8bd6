"""The base class of the operators, and what they share."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from airflow_provider_workflow.options import check_string, rendered

if TYPE_CHECKING:
    from airflow_provider_workflow.hooks.workflow import WorkflowHook

log = logging.getLogger(__name__)


class WorkflowOperator(BaseOperator):
    """
    Makes calls of the service through one connection.

    :param workflow_conn_id: id of the Airflow connection (templated).
    """

    template_fields: Sequence[str] = ("workflow_conn_id",)
    ui_color = "#dbe7ff"

    def __init__(self, *, workflow_conn_id: str = "workflow_default", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.workflow_conn_id = check_string("workflow_conn_id", workflow_conn_id)

    @cached_property
    def hook(self) -> WorkflowHook:
        """The hook, made when the task runs, so that parsing a DAG file does not import it."""
        from airflow_provider_workflow.hooks.workflow import WorkflowHook

        return WorkflowHook(rendered("workflow_conn_id", self.workflow_conn_id))


def end_if_present(what: str, done: str, end: Callable[[], object], missing_ok: bool) -> bool:
    """
    End something. If it does not exist, an earlier try may have ended it without receiving the answer.

    :param what: its name in the log.
    :param done: past participle for the log, such as "deleted".
    :param end: the call that ends it.
    :param missing_ok: whether it is a success if it does not exist.
    :return: whether this call ended it.
    :raises NotFoundError: it does not exist, and ``missing_ok`` is False.
    """
    from airflow_provider_workflow.client.errors import NotFoundError

    try:
        end()
    except NotFoundError as error:
        if not missing_ok:
            raise
        log.warning("%s does not exist; nothing to do (%s)", what, error)
        return False
    log.info("%s was %s", what, done)
    return True


def storable(value: Any) -> Any:
    """
    A value of the service in a form that any XCom can hold.

    Airflow cannot store a lone surrogate (half of an emoji, in a truncated string), and PostgreSQL cannot
    store NUL: both become U+FFFD.
    """
    if not isinstance(value, str):
        return value
    return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace").replace("\0", "\ufffd")
