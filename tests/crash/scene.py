"""Airflow, the service and every message that was put: what a crash test acts on."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

import requests

from tests.crash.account import Account
from tests.crash.poison import message_of, text_of
from tests.crash.recipes import Recipe
from tests.crash.service import Service
from tools.airflow_api import AirflowAPIError
from tools.local_airflow import LocalAirflow

LOOK_SECONDS = 5.0


@dataclass(frozen=True)
class Scene:
    """
    :param worked: folder with a file for each message whose work was done.
    :param accounts: the messages of each recipe.
    :param size: bytes of a payload, about; 0 for a few.
    :param kills: whether some messages end the process that checks them.
    """

    airflow: LocalAirflow
    service: Service
    worked: Path
    accounts: dict[Recipe, Account]
    size: int = 0
    kills: bool = False

    def put(self, recipe: Recipe, number: int, text_bytes: int = 0) -> None:
        """
        Put a message; its time is that of the first attempt.

        :param text_bytes: length of the text in its payload.
        """
        message_id, payload = (
            message_of(number, self.size, text_bytes, kills=self.kills and recipe.checks)
            if recipe.dead_letter_dag_id
            else (str(uuid.uuid4()), {"number": number, "text": text_of(text_bytes)})
        )
        account = self.accounts[recipe]
        account.put[message_id], account.payloads[message_id] = time.time(), payload
        self.service.put(recipe.inbox, message_id, payload)

    def settles(
        self, seconds: float, recipes: Collection[Recipe], meanwhile: Callable[[], None] = lambda: None
    ) -> bool:
        """
        Wait until everything is done for every message of these recipes; whether it came to that.

        :param meanwhile: called each time that something is not done yet.
        """
        deadline, pause = time.monotonic() + seconds, LOOK_SECONDS
        while (began := time.monotonic()) < deadline:
            time.sleep(pause)
            try:
                accounts = self.current_accounts()
            except (requests.RequestException, AirflowAPIError):
                continue  # something is being started again
            # The API server that lists all runs starts new ones too.
            pause = max(LOOK_SECONDS, 2 * (time.monotonic() - began - pause))
            if all(accounts[recipe].lost == accounts[recipe].unfinished == 0 for recipe in recipes):
                return True
            meanwhile()
        return False

    def current_accounts(self) -> dict[Recipe, Account]:
        """The accounts as things are now."""
        return {recipe: self._count(recipe, account) for recipe, account in self.accounts.items()}

    def _count(self, recipe: Recipe, account: Account) -> Account:
        now = Account(account.recipe, account.put, account.payloads, is_same=account.is_same)
        recipe.count(now, self.airflow.api, self.worked)
        if recipe.dead_letter_dag_id is not None:
            now.count_dead_letters(self.airflow.api.dag_runs(recipe.dead_letter_dag_id))
        now.count_leases(self.service.summary(recipe.inbox)["messages"])
        return now
