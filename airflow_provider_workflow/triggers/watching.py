"""What both kinds of asset watchers need: what they say of their inbox's state, and how long they wait."""

from __future__ import annotations

import logging

from airflow_provider_workflow.client.inboxes import FAILED, PAUSED
from airflow_provider_workflow.dispatch.session import InboxUnusableError
from airflow_provider_workflow.values import plain

LONGEST_ANSWER_SECONDS = 300.0
"""After so long without an answer a call counts as a fault, so that the log speaks of it."""


class InboxState:
    """
    Logs the states of an inbox that is watched on through all of them, each when it is new.

    :param inbox: id or name.
    :param done_while_paused: what is still done with the messages of a paused inbox.
    :param log: of the watcher.
    """

    def __init__(self, inbox: str, done_while_paused: str, log: logging.Logger) -> None:
        self._inbox = inbox
        self._done_while_paused = done_while_paused
        self._log = log
        self._said: str | None = None

    def seen(self, status: str, reason: str | None) -> None:
        """
        Take note of a state.

        :param reason: the ``paused_reason``, or None.
        :raises InboxUnusableError: the inbox failed to initialise.
        """
        if status == FAILED:
            raise InboxUnusableError(self._inbox, reason)
        text = status
        if status == PAUSED:
            text = (
                f"paused ({reason or 'no reason given'}): what it holds is still {self._done_while_paused},"
                " new events are dropped until it is resumed"
            )
        state = plain(text)
        if state != self._said:
            self._log.info("Inbox %s is %s", self._inbox, state)
        self._said = state
