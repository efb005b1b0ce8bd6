"""``WorkflowEnsureInboxOperator``: an inbox of a name and a subscription exists, and is active."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow_provider_workflow.client.arguments import NAME_LENGTH, URL_LENGTH, flag, intervals, seconds
from airflow_provider_workflow.operators.base import WorkflowOperator
from airflow_provider_workflow.options import check_inputs, check_text, deferrable_or_default, known_later
from airflow_provider_workflow.rendering import ABSENT

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_provider_workflow.operators.inbox_changes import InboxSummary


class WorkflowEnsureInboxOperator(WorkflowOperator):
    """
    Creates an inbox, or finds the one of this name and subscription, and waits until it is active.

    It may run any number of times: the service finds the inbox by its name (docs/service.md 2.2, 4.1
    and 11.2). Returns its ``id``, ``name``, ``status`` and ``paused_reason``. An inbox that is
    paused is returned with a WARNING, as resuming it is yours to decide
    (``WorkflowResumeInboxOperator``); while it is paused the service drops new events.

    :param name: name of the inbox, up to 100 characters; it never changes (templated).
    :param app_key: the app: versioned, versionless, ``@latest`` or a slug (templated).
    :param action_key: the app's trigger (templated).
    :param inputs: the trigger's fields (templated).
    :param connection_id: the account at the app: UUID or whole number; None for none (templated).
    :param notification_url: told by POST when messages arrive, up to 2048 characters (templated). An
        inbox that has another one is changed; None leaves it as it is. Airflow shows the rendered text on
        the task's page, but not where it comes from a Variable whose name holds "secret".
    :param wait_until_active: False returns an inbox that is ``initializing`` as well.
    :param recreate_failed: delete an inbox that failed to initialise, with any messages in it, and create
        it again, once per try.
    :param deferrable: wait in the triggerer; None takes ``[operators] default_deferrable``.
    :param poll_interval: seconds between the first two looks while waiting, above 0; it doubles.
    :param max_poll_interval: seconds that it doubles up to.
    :param timeout: seconds to wait at most, above 0, in each try.
    :param workflow_conn_id: id of the Airflow connection (templated).
    """

    template_fields: Sequence[str] = (
        "name",
        "app_key",
        "action_key",
        "inputs",
        "connection_id",
        "notification_url",
        *WorkflowOperator.template_fields,
    )
    STRINGS = {  # noqa: RUF012 see RendersStrings
        "name": (),
        "app_key": (),
        "action_key": (),
        "notification_url": ABSENT,
        **WorkflowOperator.STRINGS,
    }
    template_fields_renderers = {"inputs": "json"}  # noqa: RUF012 Airflow's own form

    def __init__(
        self,
        *,
        name: str,
        app_key: str,
        action_key: str,
        inputs: Mapping[str, Any] | None = None,
        connection_id: str | int | None = None,
        notification_url: str | None = None,
        wait_until_active: bool = True,
        recreate_failed: bool = False,
        deferrable: bool | None = None,
        poll_interval: float = 5,
        max_poll_interval: float = 60,
        timeout: float = 600,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.name = check_text("name", name, NAME_LENGTH)
        self.app_key = check_text("app_key", app_key)
        self.action_key = check_text("action_key", action_key)
        self.inputs = inputs if known_later(inputs) else check_inputs(inputs)
        self.connection_id = connection_id
        self.notification_url = notification_url
        if notification_url is not None:
            check_text("notification_url", notification_url, URL_LENGTH)
        self.wait_until_active = flag("wait_until_active", wait_until_active)
        self.recreate_failed = flag("recreate_failed", recreate_failed)
        self.poll_interval, self.max_poll_interval = intervals(poll_interval, max_poll_interval)
        self.timeout = seconds("timeout", timeout)
        self.deferrable = deferrable_or_default(deferrable)

    def execute(self, context: Context) -> InboxSummary:  # noqa: ARG002 Airflow's signature
        """
        Ensure the inbox, and wait for it.

        :raises InboxNameTakenError: an inbox of this name has another subscription; both are in the text.
        :raises InitializationFailedError: the service could not subscribe it.
        :raises InboxNotSettledError: it was not active in time.
        :raises ValueError: an argument was rendered to something else than it may be.
        :raises WorkflowError: the service cannot be used.
        """
        from airflow_provider_workflow.operators.ensuring import Ensuring

        return Ensuring(self).begin()

    def resume(
        self,
        context: Context,  # noqa: ARG002 Airflow's signature
        event: dict[str, Any] | None = None,
        deadline: float = 0,
        recreated: bool = False,
    ) -> InboxSummary:
        """
        Go on after the trigger: ensure the inbox once more, as it may have changed again.

        :param deadline: epoch seconds at which the waiting ends.
        :param recreated: whether it was deleted and created again in this try.
        :raises AirflowException: the event is not one of the trigger's.
        """
        from airflow_provider_workflow.operators.ensuring import Ensuring

        return Ensuring(self).go_on(event or {}, deadline, recreated)
