"""The two questions to Airflow's REST API v2: does a run of an inbox wait already, and start one."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import aiohttp

from airflow_provider_workflow.client.errors import TransportError
from airflow_provider_workflow.client.over_aiohttp import exchange
from airflow_provider_workflow.client.settings import proxy_for
from airflow_provider_workflow.client.wire import Answer, Request
from airflow_provider_workflow.receiver.airflow_token import (
    JSON,
    TIMEOUT_SECONDS,
    AirflowFailure,
    AirflowToken,
    Credentials,
)

LATEST_RUNS = 20
"""How many runs of an inbox are looked at: the newest, and any older one that was cleared to run again."""


class AirflowRest:
    """
    Airflow at one address.

    :param url: address of the API server, without a slash at its end.
    :param credentials: where tokens come from.
    :param session: carries the requests.
    """

    def __init__(self, url: str, credentials: Credentials, session: aiohttp.ClientSession) -> None:
        self._url = url
        self._proxy = proxy_for(url)
        self._session = session
        self._token = AirflowToken(url, credentials, session)

    async def next_run_id(self, dag_id: str, inbox: str) -> str | None:
        """
        The id of the run to start for an inbox, or None where a queued one waits already.

        Runs of an inbox are numbered, so that of two receivers that start one at the same time the
        second finds that it exists.

        :raises AirflowFailure: Airflow did not do as asked.
        :raises TransportError: Airflow is unreachable.
        """
        prefix, mark = names_of(inbox)
        query = {"run_id_pattern": mark, "order_by": "-id", "limit": str(LATEST_RUNS)}
        answer = await self._call("GET", dag_id, query=query)
        latest = 0
        for run_id, state in _runs(answer):
            number = run_id.removeprefix(prefix)
            if run_id.startswith(prefix) and number.isdecimal() and number.isascii():
                if state == "queued":
                    return None
                latest = max(latest, int(number))
        return f"{prefix}{latest + 1}"

    async def start(self, dag_id: str, run_id: str, inbox: str) -> bool:
        """
        Start a run of a dispatch DAG.

        :return: False where the run existed.
        :raises AirflowFailure: Airflow did not do as asked.
        :raises TransportError: Airflow is unreachable, or it is not known whether the run was started.
        """
        body = {"dag_run_id": run_id, "logical_date": None, "conf": {"inbox": inbox}}
        answer = await self._call("POST", dag_id, body=body, accepted=(200, 201, 409))
        return answer.status != 409

    async def _call(
        self,
        method: str,
        dag_id: str,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        accepted: tuple[int, ...] = (200,),
    ) -> Answer:
        url = f"{self._url}/api/v2/dags/{quote(dag_id, safe='')}/dagRuns"
        content = None if body is None else json.dumps(body).encode()
        token = await self._token.get()
        for _ in range(2):
            headers = {**JSON, "Authorization": f"Bearer {token}"}
            request = Request(method, url, query or {}, headers, content, TIMEOUT_SECONDS, self._proxy)
            answer = await exchange(self._session, request)
            if answer.status != 401:
                break
            token = await self._token.get(refused=token)
        if answer.status not in accepted:
            raise AirflowFailure(_refusal(answer, dag_id))
        return answer


def names_of(inbox: str) -> tuple[str, str]:
    """
    How the ids of an inbox's runs begin, and the part of that which no other inbox shares.

    Airflow searches for that part as an SQL pattern which ignores case; an inbox's own name could hold
    wildcards.
    """
    readable = re.sub(r"[^A-Za-z0-9.-]", "-", inbox)[:100].replace("..", "--")
    mark = hashlib.sha256(inbox.encode()).hexdigest()[:16]
    return f"notified__{readable}__{mark}__", mark


def _runs(answer: Answer) -> list[tuple[str, str]]:
    try:
        return [(str(run["dag_run_id"]), str(run["state"])) for run in answer.json()["dag_runs"]]
    except (TransportError, KeyError, TypeError):
        raise AirflowFailure(
            "the answer to a list of DAG runs is not Airflow's: correct the address of Airflow"
        ) from None


def _refusal(answer: Answer, dag_id: str) -> str:
    said = f"Airflow answered {answer.status}{_detail(answer)}"
    if answer.status == 401:
        return f"{said}: it does not accept the token that it was given; correct the credentials"
    if answer.status == 403:
        return f"{said}: let the user read and create runs of the DAG {dag_id!r}"
    if answer.status == 404:
        return f"{said}: deploy the DAG {dag_id!r}, or correct its id or the address of Airflow"
    if 300 <= answer.status < 400:
        return f"{said}: it redirects; correct the address of Airflow"
    return said


def _detail(answer: Answer) -> str:
    try:
        detail = answer.json()["detail"]
    except (TransportError, KeyError, TypeError):
        return ""
    return f" ({detail[:200]!r})" if isinstance(detail, str) else ""
