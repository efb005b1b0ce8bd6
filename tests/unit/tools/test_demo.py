"""``make demo``: the verdict."""

from __future__ import annotations

from typing import Any

import pytest

from tools.demo_messages import Verdict


def run_of(message_id: str, state: str = "success") -> dict[str, Any]:
    return {"conf": {"inbox_id": "i", "message": {"id": message_id}}, "state": state}


NO_RUNS = [{"conf": conf, "state": "failed"} for conf in (None, {}, {"message": None}, {"message": {}})]
"""Runs that a user started without a message, which do not count."""


@pytest.mark.parametrize(
    ("statuses", "runs", "text", "holds", "complete"),
    [
        (("acked",) * 2, [*map(run_of, "ba"), *NO_RUNS], "2 messages, 2 runs, 0 lost, 0 twice", True, True),
        (("acked", "acked"), [run_of("a")], "2 messages, 1 runs, 1 lost, 0 twice", False, False),
        (("acked", "acked"), [*map(run_of, "aab")], "2 messages, 3 runs, 0 lost, 1 twice", False, False),
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
    messages = [
        {"id": message_id, "status": status} for message_id, status in zip("ab", statuses, strict=False)
    ]
    verdict = Verdict.of(messages, runs)

    assert (verdict.text, verdict.holds, verdict.complete) == (text, holds, complete)
