"""``make demo``: the verdict, the exit code, and what is shown."""

from __future__ import annotations

import io
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from tools import demo
from tools.demo_messages import Verdict, order
from tools.demo_view import Screen, glimpse


def console(**options: Any) -> Console:
    return Console(file=io.StringIO(), highlight=False, **options)


def text_of(written: Console) -> str:
    assert isinstance(written.file, io.StringIO)
    return written.file.getvalue()


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
    written = console()
    assert demo.show_messages(service, airflow, Screen(written), once=True, chaos=False) == code

    lines = text_of(written).splitlines()
    assert lines[-1] == "the verdict"
    assert ("the ends of the logs" in lines) is (ends == "late")


def test_an_example_that_does_not_name_its_inbox_once_is_an_error() -> None:
    with pytest.raises(ValueError, match="does not have the argument inbox="):
        demo.with_short_leases("from airflow.sdk import DAG")


def run_of(message_id: str, state: str = "success") -> dict[str, Any]:
    return {"conf": {"inbox_id": "i", "message": {"id": message_id}}, "state": state}


@pytest.mark.parametrize(
    ("statuses", "runs", "text", "holds", "complete"),
    [
        (("acked", "acked"), "ba", "2 messages, 2 runs, 0 lost, 0 twice", True, True),
        (("acked", "acked"), "a", "2 messages, 1 runs, 1 lost, 0 twice", False, False),
        (("acked", "acked"), "aab", "2 messages, 3 runs, 0 lost, 1 twice", False, False),
        (("acked",), "ab", "1 messages, 2 runs, 0 lost, 0 twice", True, False),
        (
            ("leased", "available"),
            "",
            "2 messages, 0 runs, 0 lost, 0 twice;"
            " 2 in flight, not lost: a leased message starts when its lease ends",
            True,
            False,
        ),
    ],
)
def test_the_verdict_counts_the_messages_of_the_service_and_the_runs_of_airflow(
    statuses: tuple[str, ...], runs: str, text: str, holds: bool, complete: bool
) -> None:
    messages = [{"id": each, "status": status} for each, status in zip("ab", statuses, strict=False)]
    verdict = Verdict.of(messages, [run_of(each) for each in runs])

    assert (verdict.text, verdict.holds, verdict.complete) == (text, holds, complete)


def test_a_run_that_has_not_succeeded_is_not_complete() -> None:
    verdict = Verdict.of([{"id": "a", "status": "acked"}], [run_of("a", "running")])

    assert verdict.text == "1 messages, 1 runs, 0 lost, 0 twice; 1 of the runs not successful so far"
    assert verdict.holds
    assert not verdict.complete


def test_a_run_that_a_user_started_without_a_message_does_not_count() -> None:
    confs = (None, {}, {"message": None}, {"message": {}})
    runs = [run_of("a"), *({"conf": conf, "state": "failed"} for conf in confs)]

    assert Verdict.of([{"id": "a", "status": "acked"}], runs).complete


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        (order(17), '{"order": 17, "item": "plums", "crates": 2}'),
        ({"name": "Zoë\n\x1b[31m"}, '{"name": "Zoë\\n\\u001b[31m"}'),
        ("\x9b\u202e", '"\\x9b\\u202e"'),
    ],
)
def test_a_glimpse_is_one_printable_line(payload: object, text: str) -> None:
    assert glimpse(payload) == text


def test_a_line_is_neither_wrapped_nor_taken_for_markup() -> None:
    text = "[bold]a line of more than twenty characters, with brackets[/bold]"
    written = console(width=20)
    Screen(written).say(text)

    assert text_of(written) == f"{text}\n"
