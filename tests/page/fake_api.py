"""The JSON API of the page "Inboxes", as far as the page can tell, from data in memory."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.page.host import Answer, Request

NOW = "2026-11-23T12:00:00+00:00"
EARLIER = "2026-11-23T11:55:00+00:00"
CONNECTION = "workflow_default"


def inbox(number: int = 1, **changes: Any) -> dict[str, Any]:
    """An inbox as the list has it."""
    return {
        "id": f"00000000-0000-4000-8000-{number:012}",
        "name": f"orders-{number}",
        "status": "active",
        "paused_reason": None,
        "paused_text": None,
        "is_alarm": False,
        "no_listener": None,
        "summary": None,
        "runs": {"failed": 3, "success": 1200, "dead_letter": 1},
        "listeners": [
            {
                "dag_id": f"handle_{number}",
                "is_paused": False,
                "url": f"/dags/handle_{number}",
                "tasks": [{"task_id": "start_runs", "dead_letter_dag_id": None}],
                "last_run": None,
            }
        ],
    } | changes


def finding(check: str, detail: str, fix: str = "correct it", **changes: Any) -> dict[str, Any]:
    """A line of the banner."""
    return {
        "check": check,
        "status": "failed",
        "detail": detail,
        "fix": fix,
        "inbox": None,
        "dags": [],
        "failing_since": None,
    } | changes


def run(dag_id: str = "handle", number: int = 1, state: str = "success") -> dict[str, Any]:
    """A DAG run as answers name it."""
    run_id = f"workflow__{number}"
    return {"dag_id": dag_id, "run_id": run_id, "state": state, "url": f"/dags/{dag_id}/runs/{run_id}"}


def message(number: int = 1, **changes: Any) -> dict[str, Any]:
    """A message as the list has it."""
    return {
        "id": f"10000000-0000-4000-8000-{number:012}",
        "status": "available",
        "created_at": EARLIER,
        "delivery_count": 0,
        "error_message": None,
        "possible_duplicate": False,
        "run": None,
        "dead_letter": None,
    } | changes


def dead_letter(number: int = 1, **changes: Any) -> dict[str, Any]:
    """A dead letter as the list has it."""
    return {
        **run("dead_letters", number),
        "started_at": EARLIER,
        "inbox_id": inbox()["id"],
        "inbox_name": inbox()["name"],
        "message_id": message(number)["id"],
        "reason": "rejected",
        "cause": "the DAG requires the param amount",
        "delivery_count": 3,
        "created_at": EARLIER,
        "target_dag_id": "handle",
        "started_by": "a task",
        "replayed": None,
    } | changes


def error(status: int, code: str, title: str, fix: str) -> Answer:
    """An error in words."""
    return Answer({"error": {"code": code, "title": title, "fix": fix}}, status)


@dataclass
class FakeAPI:
    """
    Answers from lists that a test sets.

    :param task_instances: those of a listener, as Airflow's own API has them.
    :param found_runs: what it finds by a text in the confs of DAG runs.
    :param result: what each task of a listener returned.
    :param failing: answers instead of the others, by the last segment of the path.
    :param quarantined: how many messages of each inbox are quarantined.
    :param page_size: how many entries an answer has.
    :param fetched_at: when the service gave what is answered.
    :param is_late: whether lists do not have changes yet, as those of another API server worker.
    """

    connections: list[str] = field(default_factory=lambda: [CONNECTION])
    inboxes: list[dict[str, Any]] = field(default_factory=lambda: [inbox()])
    findings: list[dict[str, Any]] = field(default_factory=list)
    messages: list[dict[str, Any]] = field(default_factory=list)
    dead_letters: list[dict[str, Any]] = field(default_factory=list)
    task_instances: list[dict[str, Any]] = field(default_factory=list)
    found_runs: list[dict[str, Any]] = field(default_factory=list)
    result: Any = None
    may_add: bool = True
    outcome: str = "started"
    is_late: bool = False
    failing: dict[str, Answer] = field(default_factory=dict)
    quarantined: int = 1
    page_size: int = 5000
    fetched_at: str = NOW

    def __call__(self, request: Request) -> Answer:
        """The answer to a request."""
        last = request.parts[-1]
        if last in self.failing:
            return self.failing[last]
        if request.parts[-2:-1] == ["inboxes"]:
            return self._one(last)
        answers: dict[str, Callable[[Request], Any]] = {
            "connections": lambda _: {
                "connections": [{"connection_id": connection_id} for connection_id in self.connections],
                "may_add": self.may_add,
            },
            "inboxes": lambda page_request: {
                **self._page("inboxes", self.inboxes, page_request),
                "findings": self.findings,
            },
            "messages": self._messages,
            "dead-letters": lambda _: {
                "dead_letters": self.dead_letters,
                "is_partial": False,
                "fetched_at": self.fetched_at,
            },
            "summary": lambda _: self.summary_of_inbox(),
            "pause": lambda page_request: self._set(page_request, "paused", "user"),
            "resume": lambda page_request: self._set(page_request, "active", None),
            "replay": self._replay,
        }
        return Answer(answers[last](request))

    def _page(self, name: str, entries: list[dict[str, Any]], request: Request) -> dict[str, Any]:
        first = int(request.query.get("cursor", ["0"])[0])
        end = first + self.page_size
        next_cursor = str(end) if end < len(entries) else None
        return {name: entries[first:end], "next": next_cursor, "fetched_at": self.fetched_at}

    def _messages(self, request: Request) -> dict[str, Any]:
        page = self._page("messages", self.messages, request)
        body = self._one(request.parts[-2]).body
        if "cursor" in request.query or "inboxes" not in body:
            return page
        summary = self.summary_of_inbox()
        known_summary = summary if summary["counts"] and "summary" not in self.failing else None
        body["inboxes"] = [
            {**entry, "summary": entry["summary"] or known_summary} for entry in body["inboxes"]
        ]
        return page | {"inbox": body}

    def _one(self, inbox_id: str) -> Answer:
        inboxes = [entry for entry in self.inboxes if inbox_id in (entry["id"], entry["name"])]
        if not inboxes:
            return error(404, "not_found", "The service has no such inbox.", "reload the list")
        findings = [entry for entry in self.findings if entry["inbox"] == inboxes[0]["id"]]
        return Answer({"inboxes": inboxes, "next": None, "fetched_at": self.fetched_at, "findings": findings})

    def summary_of_inbox(self) -> dict[str, Any]:
        """The numbers of any inbox."""
        return {
            "counts": {"available": 4, "leased": 2, "quarantined": self.quarantined},
            "is_partial": False,
            "oldest_created_at": EARLIER,
            "fetched_at": self.fetched_at,
        }

    def _set(self, request: Request, status: str, reason: str | None) -> dict[str, Any]:
        (chosen_inbox,) = (entry for entry in self.inboxes if entry["id"] == request.parts[-2])
        changed_inbox = chosen_inbox | {"status": status, "paused_reason": reason}
        if not self.is_late:
            chosen_inbox |= changed_inbox
        return changed_inbox

    def _replay(self, request: Request) -> dict[str, Any]:
        (letter,) = (letter for letter in self.dead_letters if letter["run_id"] == request.body["run_id"])
        if not self.is_late:
            letter["replayed"] = run(state="queued")
        return {**run(), "outcome": self.outcome}

    def of_airflow(self, path: str) -> Answer | None:
        """The answer of Airflow's own API for DAG runs, task instances and XComs; None for other paths."""
        if path.endswith("/~/dagRuns"):
            return Answer({"dag_runs": self.found_runs, "total_entries": len(self.found_runs)})
        if path.endswith("/taskInstances"):
            return self.failing.get("taskInstances", Answer({"task_instances": self.task_instances}))
        if path.endswith("/xcomEntries/return_value"):
            return Answer({"value": json.dumps(self.result)})
        if "/dagRuns/" not in path:
            return None
        dead = {"message_json": '{"id": "m", "payload": {"amount": 7}}'}
        of_message = {"message": {"id": "m", "payload": {"amount": 12345678901234567890}}}
        return self.failing.get("dagRuns", Answer({"conf": dead if "dead_letters" in path else of_message}))
