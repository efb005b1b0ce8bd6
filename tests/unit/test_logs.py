"""The search for WARNING and ERROR lines sees them in every form that Airflow's processes write."""

from __future__ import annotations

import pytest

from tests.logs import entries


@pytest.mark.parametrize(
    "text",
    [
        "2026-01-01T10:00:00.1Z [warning  ] Event stream broke [client.events] loc=1",
        "2026-01-01 10:00:00.1+00:00 [error    ] XCom not found [task] dag_id=d",
        "\x1b[2m2026-01-01T10:00:00Z\x1b[0m [\x1b[31merror    \x1b[0m] API server error [supervisor]",
        '{"timestamp": "2026-01-01T10:00:00Z", "level": "warning", "event": "rejected"}',
        "WARNING:  a line of uvicorn",
        "Traceback (most recent call last):\n  File x\nValueError: y",
    ],
)
def test_an_alarming_entry_is_seen(text: str) -> None:
    calm = "2026-01-01T10:00:00Z [info     ] calm"
    found = list(entries("scheduler.log", f"{calm}\n{text}\n{calm}\n"))

    assert [entry.is_alarming for entry in found] == [False, True, False]
    assert found[1].text.splitlines()[-1] in text or "\x1b" in text


def test_a_word_in_a_message_is_no_level() -> None:
    text = "2026-01-01T10:00:00Z [info     ] [error] ERROR: not within 5 s [x]\n  at level=error"

    assert [entry.is_alarming for entry in entries("x.log", text)] == [False]


def test_a_traceback_belongs_to_the_error_that_it_follows() -> None:
    text = "2026-01-01T10:00:00Z [error    ] Error\nTraceback (most recent call last)\nX: database is locked"

    (entry,) = entries("x.log", text)
    assert entry.text.endswith("database is locked")
