"""A small Airflow on a real socket: tokens, and runs that stay queued until a test moves them on."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestServer

USERNAME = "bell-boy"
PASSWORD = "pass-word-of-the-bell-boy"
RUN_ID = re.compile(r"^[A-Za-z0-9_.~:+-]+$")
ROUTE = "/api/v2/dags/{dag_id}/dagRuns"


@dataclass
class Run:
    dag_id: str
    run_id: str
    conf: dict[str, Any]
    state: str = "queued"

    def view(self) -> dict[str, Any]:
        return {"dag_id": self.dag_id, "dag_run_id": self.run_id, "conf": self.conf, "state": self.state}


class FakeAirflow:
    """
    What a receiver needs of Airflow's API server.

    ``fault`` is the status that everything below ``/api`` answers with; ``cut`` has the effect of the next
    start and cuts the connection. Requests wait while ``open`` is not set.

    :param port: where it listens; a free one where None.
    """

    def __init__(self, port: int | None = None) -> None:
        self.runs: list[Run] = []
        self.started: asyncio.Queue[Run] = asyncio.Queue()
        self.looks = 0
        self.looked: asyncio.Queue[None] = asyncio.Queue()
        self.logins = 0
        self.issued = 0
        self.tokens: set[str] = set()
        self.all_admins = False
        self.fault: tuple[int, Any] | None = None
        self.cut = False
        self.open = asyncio.Event()
        self.open.set()
        app = web.Application()
        app.router.add_post("/auth/token", self._log_in)
        app.router.add_get("/auth/token", self._log_in_without)
        app.router.add_get(ROUTE, self._list)
        app.router.add_post(ROUTE, self._start)
        self.server = TestServer(app, port=port)

    @property
    def url(self) -> str:
        return str(self.server.make_url("/")).rstrip("/")

    def add(self, run_id: str, state: str, dag_id: str = "dispatch", **conf: Any) -> None:
        """A run that somebody else started."""
        self.runs.append(Run(dag_id, run_id, conf, state))

    def issue(self) -> str:
        self.issued += 1
        token = f"token-{self.issued}-of-airflow"
        self.tokens.add(token)
        return token

    async def next_run(self) -> Run:
        """The next run that is started, or was started and not asked for yet."""
        return await asyncio.wait_for(self.started.get(), 10)

    async def _log_in(self, request: web.Request) -> web.Response:
        self.logins += 1
        body = await request.json()
        if body != {"username": USERNAME, "password": PASSWORD}:
            return web.json_response({"detail": f"Invalid credentials {body}"}, status=401)
        return web.json_response({"access_token": self.issue()}, status=201)

    async def _log_in_without(self, _: web.Request) -> web.Response:
        self.logins += 1
        if not self.all_admins:
            return web.json_response({"detail": "not allowed"}, status=403)
        return web.json_response({"access_token": self.issue()}, status=201)

    async def _refusal(self, request: web.Request) -> web.Response | None:
        await self.open.wait()
        if request.headers["Authorization"].removeprefix("Bearer ") not in self.tokens:
            return web.json_response({"detail": "Invalid JWT token"}, status=401)
        if self.fault is None:
            return None
        status, detail = self.fault
        return web.json_response({"detail": detail}, status=status)

    async def _list(self, request: web.Request) -> web.Response:
        self.looks += 1
        self.looked.put_nowait(None)
        if refusal := await self._refusal(request):
            return refusal
        like = re.escape(request.query["run_id_pattern"]).replace("_", ".").replace("%", ".*")
        assert request.query["order_by"] == "-id"
        found = [
            run.view()
            for run in reversed(self.runs)
            if run.dag_id == request.match_info["dag_id"] and re.search(like, run.run_id, re.IGNORECASE)
        ]
        return web.json_response({"dag_runs": found[: int(request.query["limit"])]})

    async def _start(self, request: web.Request) -> web.Response:
        if refusal := await self._refusal(request):
            return refusal
        body = await request.json()
        assert body["logical_date"] is None
        assert RUN_ID.match(body["dag_run_id"])
        assert len(body["dag_run_id"]) <= 250
        run = Run(request.match_info["dag_id"], body["dag_run_id"], body["conf"])
        if any((run.dag_id, run.run_id) == (each.dag_id, each.run_id) for each in self.runs):
            return web.json_response({"detail": "exists"}, status=409)
        self.runs.append(run)
        self.started.put_nowait(run)
        if self.cut:
            self.cut = False
            assert request.transport is not None
            request.transport.abort()
        return web.json_response(run.view())
