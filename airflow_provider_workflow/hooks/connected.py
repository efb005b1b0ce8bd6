"""How an Airflow connection becomes a client, in tasks and in triggers."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import asynccontextmanager
from copy import copy
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, TypeVar

from airflow.sdk import BaseHook

from airflow_provider_workflow.client import inboxes
from airflow_provider_workflow.client.call import Call
from airflow_provider_workflow.client.settings import Settings
from airflow_provider_workflow.configuration import max_event_streams
from airflow_provider_workflow.hooks.masking import mask, mask_here
from airflow_provider_workflow.hooks.observing import observer
from airflow_provider_workflow.hooks.user_tokens import VariableStore

if TYPE_CHECKING:
    from typing_extensions import Self

    from airflow_provider_workflow.client.client import AsyncWorkflowClient, WorkflowClient

T = TypeVar("T")

DEFAULT_CONN_ID = "workflow_default"
HURRIED_SECONDS = 5.0


class ConnectedHook(BaseHook):
    """
    Has the client of a connection.

    :param workflow_conn_id: id of the Airflow connection.
    """

    def __init__(self, workflow_conn_id: str = DEFAULT_CONN_ID) -> None:
        super().__init__()
        self.workflow_conn_id = workflow_conn_id

    @cached_property
    def settings(self) -> Settings:
        """
        The checked connection.

        :raises ConfigurationError: names every field that is missing or wrong.
        """
        connection = self.get_connection(self.workflow_conn_id)
        return _settings(connection, connection.extra_dejson, self.workflow_conn_id)

    @cached_property
    def client(self) -> WorkflowClient:
        """The client of this hook; its connections stay open for as long as the hook lives."""
        from airflow_provider_workflow.client.client import WorkflowClient

        store = VariableStore(self.settings, mask)
        observe = observer(self.workflow_conn_id)
        return WorkflowClient(self.settings, on_token=mask, store=store, observe=observe)

    def close(self) -> None:
        """Close the connections of this hook's client; its next call opens new ones."""
        if "client" in vars(self):
            self.client.close()

    def hurried(self) -> Self:
        """
        This hook with another client: it sends each call once, for at most 5 s, and waits at no rate gate.

        For a task that is being ended. To be closed.
        """
        from airflow_provider_workflow.client.client import WorkflowClient

        other = copy(self)
        settings = replace(self.settings, timeout=min(self.settings.timeout, HURRIED_SECONDS))
        store = VariableStore(self.settings, mask)
        other.client = WorkflowClient(
            settings,
            on_token=mask,
            store=store,
            observe=observer(self.workflow_conn_id),
            attempts=1,
            longest_wait=0.0,
        )
        return other

    def run_once(self, exchange: Generator[Any, Any, T]) -> T:
        """
        Make calls that are not worth any patience: none is sent twice, nor waits at a rate gate.

        :param exchange: the calls, such as ``inboxes.all_messages``.
        :raises WorkflowError: the first of them that failed.
        """
        return self.client.hurried().run(exchange)

    @asynccontextmanager
    async def async_client(self) -> AsyncIterator[AsyncWorkflowClient]:
        """A client for triggers: nothing in it blocks the event loop, and it shares the loop's session."""
        from airflow.providers.common.compat.connection import get_async_connection
        from asgiref.sync import sync_to_async

        from airflow_provider_workflow.client.client import AsyncWorkflowClient
        from airflow_provider_workflow.client.over_aiohttp import shared_session

        connection = await get_async_connection(self.workflow_conn_id)
        # Not ``extra_dejson``: it tells the supervisor what to mask, a blocking call that can end a
        # triggerer. There is no secret among our extra fields.
        settings = _settings(connection, _decoded(connection.extra), self.workflow_conn_id)
        hide = partial(mask_here, connection_id=self.workflow_conn_id)
        async with shared_session(settings.ca_file(), max_event_streams()) as session:
            yield AsyncWorkflowClient(
                settings,
                session,
                on_token=hide,
                store=VariableStore(settings, hide),
                # Not any thread: what a Variable asks of the supervisor goes through the triggerer's loop
                # only from asgiref's. Others break the triggerer's own talk before Airflow 3.3.
                in_thread=lambda function, *given: sync_to_async(function)(*given),
                observe=observer(self.workflow_conn_id),
            )

    def _at(self, inbox: str, make: Callable[[str], Call[T]]) -> T:
        return self.client.run(inboxes.at_inbox(self.settings, inbox, make))


def _decoded(extra: str | None) -> Any:
    try:
        return json.loads(extra or "{}")
    except ValueError:
        return {}


def _settings(connection: Any, extra: Any, conn_id: str) -> Settings:
    # An extra that is no object holds no fields, and the error that names those missing says so.
    return Settings.build(
        host=connection.host,
        login=connection.login,
        password=connection.password,
        extra=extra if isinstance(extra, dict) else {},
        scheme=connection.schema,
        port=connection.port,
        connection_id=conn_id,
    )
