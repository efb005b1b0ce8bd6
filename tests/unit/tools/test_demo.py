"""``make demo``: the verdict, the exit code, and what is shown."""

from __future__ import annotations

import io
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from tools import demo
from tools.demo_messages import Verdict
from tools.demo_view import Screen


@pytest.mark.parametrize(
    ("ends", "holds", "complete", "code"),
    [
        ("in time", True, True, 0),
        ("in time", True, False, 1),
        ("late", True, True, 1),
        ("interrupted", True, False, 0),
        ("interrupted", False, False, 1),
    ],
)
def test_the_exit_code_is_0_if_each_message_has_its_run_or_a_user_has_interrupted_what_held(
    ends: str, holds: bool, complete: bool, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run() -> bool:
        if ends == "interrupted":
            raise KeyboardInterrupt
        return ends == "in time"

    shown = SimpleNamespace(
        run=run, verdict=lambda: Verdict("the verdict", holds, complete), limit_seconds=120
    )
    monkeypatch.setattr(demo, "Demo", lambda *given, **options: shown)
    airflow: Any = SimpleNamespace(tails=lambda: "the ends of the logs")
    service: Any = SimpleNamespace()
    written = io.StringIO()
    assert demo.show_messages(service, airflow, Screen(Console(file=written)), once=True, chaos=False) == code

    lines = written.getvalue().splitlines()
    assert lines[-1] == "the verdict"
    assert ("the ends of the logs" in lines) is (ends == "late")


def run_of(message_id: str, state: str = "success") -> dict[str, Any]:
    return {"conf": {"inbox_id": "i", "message": {"id": message_id}}, "state": state}


NO_RUNS = [{"conf": conf, "state": "failed"} for conf in (None, {}, {"message": None}, {"message": {}})]
"""Runs that a user started without a message, which do not count."""


@pytest.mark.parametrize(
    ("statuses", "runs", "text", "holds", "complete"),
    [
        (
            ("acked", "acked"),
            [*map(run_of, "ba"), *NO_RUNS],
            "2 messages, 2 runs, 0 lost, 0 twice",
            True,
            True,
        ),
        (("acked", "acked"), [run_of("a")], "2 messages, 1 runs, 1 lost, 0 twice", False, False),
        (("acked", "acked"), [*map(run_of, "aab")], "2 messages, 3 runs, 0 lost, 1 twice", False, False),
        (("acked",), [*map(run_of, "ab")], "1 messages, 2 runs, 0 lost, 0 twice", True, False),
        (
            ("acked",),
            [run_of("a", "running")],
            "1 messages, 1 runs, 0 lost, 0 twice; 1 of the runs not successful so far",
            True,
            False,
        ),
        (
            ("leased", "available"),
            [],
            "2 messages, 0 runs, 0 lost, 0 twice;"
            " 2 in flight, not lost: a leased message starts when its lease ends",
            True,
            False,
        ),
    ],
)
def test_the_verdict_counts_the_messages_of_the_service_and_the_runs_of_airflow(
    statuses: tuple[str, ...], runs: list[dict[str, Any]], text: str, holds: bool, complete: bool
) -> None:
    messages = [{"id": each, "status": status} for each, status in zip("ab", statuses, strict=False)]
    verdict = Verdict.of(messages, runs)

    assert (verdict.text, verdict.holds, verdict.complete) == (text, holds, complete)
