"""``WorkflowDeadLetterReplayOperator``: starts the run that a dead letter's message was meant to start."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException

from airflow_provider_workflow.links import ReplayedRunLink
from airflow_provider_workflow.operators.base import OwnDefaults
from airflow_provider_workflow.options import check_output, check_string, rendered

if TYPE_CHECKING:
    from airflow.sdk import Context

log = logging.getLogger(__name__)


class WorkflowDeadLetterReplayOperator(OwnDefaults):
    """
    Starts the run that the message of a dead letter was meant to start, with its original run id.

    It is idempotent: a message starts one run however often it is replayed. While the target is still broken
    the try fails, the message stays a dead letter, and the retries replay it again.
    For several dead letters use ``partial().expand(conf=...)``.

    By default it has 20 retries, with pauses that double from 10 s to 6 hours, so it replays for two and a
    half days.

    Returns ``dag_id``, ``run_id`` and ``outcome``: ``started``, or ``existing`` if the message had a run.

    :param conf: the ``conf`` of a run of the dead-letter DAG, a dictionary (templated); by default that of
        the run in which the task is.
    :param trigger_dag_id: the DAG to start (templated); by default the target that rejected the message.
        Required for a message that no route took, or on which an expression failed.
    """

    template_fields: Sequence[str] = ("conf", "trigger_dag_id")
    RETRIES = 20
    MAX_RETRY_PAUSE = timedelta(hours=6)
    MULTIPLE_OUTPUTS = True
    template_fields_renderers = {"conf": "json"}  # noqa: RUF012 Airflow's own form
    operator_extra_links = (ReplayedRunLink(),)
    ui_color = "#dbe7ff"

    def __init__(
        self,
        *,
        conf: Mapping[str, Any] | Any = None,
        trigger_dag_id: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.conf = check_output("conf", conf)
        self._has_conf = conf is not None
        self._has_target = trigger_dag_id is not None
        self.trigger_dag_id = trigger_dag_id
        if trigger_dag_id is not None:
            check_string("trigger_dag_id", trigger_dag_id)

    def execute(self, context: Context) -> dict[str, str]:
        """
        Start the run, or find it.

        :raises AirflowFailException: ``conf`` is not a dead letter, or no DAG is known.
        :raises AirflowException: the target rejected the run; the message stays a dead letter.
        :raises TargetError: no run of the target can be started at present.
        """
        from airflow_provider_workflow.dispatch.replay import NotReplayableError, Replay
        from airflow_provider_workflow.dispatch.run_errors import RunRejected
        from airflow_provider_workflow.dispatch.runs import TaskRuns, origin_of
        from airflow_provider_workflow.text import escaped

        conf = self.conf if self._has_conf else context["dag_run"].conf
        if not isinstance(conf, Mapping):
            raise AirflowFailException(
                f"The dead letter cannot be replayed: conf must be a dictionary, not a {type(conf).__name__};"
                " for a dictionary from a template, set render_template_as_native_obj=True on the DAG, or"
                " give another task's output"
            )
        target = rendered("trigger_dag_id", self.trigger_dag_id, optional=not self._has_target)
        try:
            replay = Replay.of(conf)
            dag_id, outcome = replay.start(TaskRuns(context["ti"]), target, origin_of(context))
        except NotReplayableError as error:
            raise AirflowFailException(f"The dead letter cannot be replayed: {error}") from None
        except RunRejected as error:
            raise AirflowException(
                f"The replay was rejected, and its message stays a dead letter: {error}"
            ) from None
        log.info(
            "Message %s of the inbox %s was replayed: the run %s of the DAG %s is %s",
            escaped(replay.conf["message"]["id"]),
            escaped(replay.inbox_name),
            replay.run_id,
            dag_id,
            outcome.value,
        )
        return {"dag_id": dag_id, "run_id": replay.run_id, "outcome": outcome.value}
