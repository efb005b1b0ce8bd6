"""
The alarms of a day: at most five failed runs, one or more if events are dropped, and no work is held back.

Days of all states and listeners are slow; seven hours of two states are not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.unit.fakes import Supervisor
from tests.unit.flapping import DAY_SECONDS, Day, State, Store


def flapping(first: str, second: str, seconds: float) -> State:
    return lambda at: first if at % (2 * seconds) < seconds else second


SILENT: dict[str, State] = {
    "paused all day": lambda at: "paused:abandoned" if at > 60 else "ok",
    "missing all day": lambda at: "404" if at > 60 else "ok",
    "rejected all day": lambda at: "401" if at > 60 else "ok",
    "failed all day": lambda at: "failed" if at > 60 else "ok",
    "deleting all day": lambda at: "deleting" if at > 60 else "ok",
    **{
        f"paused each {s} s": flapping("ok", "paused:upstream_failures", s)
        for s in (30, 60, 130, 300, 600, 1800)
    },
    **{f"missing each {s} s": flapping("ok", "404", s) for s in (30, 70, 300, 600)},
    "rejected each 300 s": flapping("ok", "401", 300),
    "missing or away each 120 s": flapping("404", "500", 120),
    "missing or rejected each 30 s": flapping("404", "401", 30),
    "two reasons each 150 s": flapping("paused:abandoned", "paused:upstream_failures", 150),
    "a reason with a counter": lambda at: f"paused:upstream_failures since {int(at // 60)} min",
    "paused or away each 150 s": flapping("paused:abandoned", "500", 150),
    "by a user or the service each 150 s": flapping("paused:user", "paused:abandoned", 150),
}
NO_PROBLEM = ("ok", "500", "paused:user")
LISTENERS: dict[str, Callable[[Day], Day]] = {
    "notices": Day.by_notices,
    "sensor": Day.by_sensor,
    "each minute": lambda day: day.by_schedule(60),
    "each hour": lambda day: day.by_schedule(3600),
}


def in_step(state: State) -> State:
    """
    The same state, with a problem at the full hour and minute.

    A task on a time schedule sees its inbox only while it runs.
    """
    first = next(at for at in range(86400) if state(at) not in NO_PROBLEM)
    return lambda at: state(at + first)


def day_of(listener: str, state: State, monkeypatch: Any, supervisor: Any, seconds: float) -> Day:
    """A day of a listener, that has held back no work."""
    is_scheduled = listener.startswith("each")
    state = in_step(state) if is_scheduled else state
    day = LISTENERS[listener](Day(state, monkeypatch, supervisor, seconds))
    assert listener == "each hour" or day.worst_wait <= 60
    assert is_scheduled or day.is_all_started
    return day


@pytest.mark.slow
@pytest.mark.parametrize("listener", LISTENERS)
@pytest.mark.parametrize("name", SILENT)
def test_a_source_in_trouble_fails_one_to_five_runs_a_day_and_holds_back_no_work(
    name: str, listener: str, monkeypatch: pytest.MonkeyPatch, supervisor: Supervisor
) -> None:
    day = day_of(listener, SILENT[name], monkeypatch, supervisor, DAY_SECONDS)

    assert 1 <= len(day.failed_at) <= 5


@pytest.mark.parametrize("listener", LISTENERS)
@pytest.mark.parametrize("name", ["paused each 130 s", "missing each 70 s"])
def test_in_seven_hours_it_fails_one_to_three_runs(
    name: str, listener: str, monkeypatch: pytest.MonkeyPatch, supervisor: Supervisor
) -> None:
    day = day_of(listener, SILENT[name], monkeypatch, supervisor, 7 * 3600)

    assert 1 <= len(day.failed_at) <= 3


@pytest.mark.slow
@pytest.mark.parametrize("listener", LISTENERS)
def test_a_sound_source_fails_and_skips_no_run(
    listener: str, monkeypatch: pytest.MonkeyPatch, supervisor: Supervisor
) -> None:
    day = LISTENERS[listener](Day(lambda at: "ok", monkeypatch, supervisor))

    assert (day.failed_at, day.runs.skipped) == ([], 0)
    assert listener == "each hour" or day.worst_wait <= 60
    assert day.runs.xcoms == {}


@pytest.mark.slow
@pytest.mark.parametrize("store", [Store(), None])
def test_a_watcher_whose_triggerer_is_restarted_repeats_no_alarm_if_airflow_has_a_store(
    store: Any, monkeypatch: pytest.MonkeyPatch, supervisor: Supervisor
) -> None:
    day = Day(flapping("ok", "paused:abandoned", 130), monkeypatch, supervisor)
    day.by_notices(restarts=600, store=store)

    if store is None:
        assert len(day.failed_at) > 50
    else:
        assert 1 <= len(day.failed_at) <= 5
    assert day.worst_wait <= 60
