"""What the operators share that make one call of the service: the connection, and how their calls end."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk import BaseOperator

from airflow_provider_workflow.options import check_text
from airflow_provider_workflow.rendering import Kinds, RendersStrings

if TYPE_CHECKING:
    from airflow_provider_workflow.hooks.workflow import WorkflowHook

log = logging.getLogger(__name__)


class WorkflowOperator(RendersStrings, BaseOperator):
    """
    Makes calls of the service through one connection.

    :param workflow_conn_id: id of the Airflow connection (templated).
    """

    template_fields: Sequence[str] = ("workflow_conn_id",)
    STRINGS: ClassVar[Mapping[str, Kinds]] = {"workflow_conn_id": ()}
    ui_color = "#dbe7ff"

    def __init__(self, *, workflow_conn_id: str = "workflow_default", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.workflow_conn_id = check_text("workflow_conn_id", workflow_conn_id)

    @cached_property
    def hook(self) -> WorkflowHook:
        """The connection's client; made when the task runs, so that parsing a DAG file loads none of it."""
        from airflow_provider_workflow.hooks.workflow import WorkflowHook

        return WorkflowHook(self.workflow_conn_id)


def ended(what: str, done: str, end: Callable[[], object], missing_ok: bool) -> bool:
    """
    End a thing; where it is gone already, an earlier try may have ended it without receiving the answer.

    :param what: how the thing is named in the log.
    :param done: what has happened to it then, as a past participle: "deleted".
    :param end: the call that ends it.
    :param missing_ok: whether a thing that is not there is a success.
    :return: whether this call ended it.
    :raises NotFoundError: it is not there, and that is no success.
    """
    from airflow_provider_workflow.client.errors import NotFoundError

    try:
        end()
    except NotFoundError as error:
        if not missing_ok:
            raise
        log.warning("%s is not there (any more); nothing to do (%s)", what, error)
        return False
    log.info("%s was %s", what, done)
    return True


def storable(value: Any) -> Any:
    """
    A value of the service as every XCom can hold it.

    Airflow cannot store a lone surrogate (half of an emoji, where a text was cut), and PostgreSQL no
    NUL: both become U+FFFD.
    """
    if not isinstance(value, str):
        return value
    return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace").replace("\0", "\ufffd")
