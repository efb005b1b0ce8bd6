"""The search of the tests through errors: it sees what no log shows, too."""

from __future__ import annotations

import traceback

import pytest

from airflow_provider_workflow.client.arguments import filled
from tests.traces import told

SECRET = "a-secret-that-is-seen"


def replace_an_error() -> None:
    try:
        raise KeyError(SECRET)
    except KeyError:
        raise ValueError("nothing") from None


def test_a_cause_that_is_not_shown_is_seen() -> None:
    with pytest.raises(ValueError) as raised:
        replace_an_error()
    assert SECRET not in "".join(traceback.format_exception(raised.value))
    assert told(raised.value, [SECRET]) == ["its texts"]


def test_what_an_error_holds_is_seen() -> None:
    error = ValueError("nothing")
    error.body = SECRET  # type: ignore[attr-defined]
    assert told(error, [SECRET]) == ["its texts"]
    assert told(ValueError("nothing", OSError(SECRET)), [SECRET]) == ["its texts"]


def test_a_variable_of_a_frame_of_ours_is_seen() -> None:
    with pytest.raises(ValueError) as raised:
        filled("name", SECRET, len(SECRET) - 1)
    places = told(raised.value, [SECRET])
    assert "client/arguments.py, filled: value" in places
    assert "its texts" not in places


def test_other_errors_and_other_frames_show_nothing() -> None:
    hidden = SECRET
    with pytest.raises(ValueError) as raised:
        raise ValueError(f"{len(hidden)} characters")
    assert told(raised.value, [SECRET]) == []
