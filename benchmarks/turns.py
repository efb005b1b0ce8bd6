"""Messages put one by one, to one contender after the other, and when each has its DAG run."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchmarks.contenders import Contender
from benchmarks.results import Series, there
from benchmarks.stage import epoch
from tools.local_airflow import LocalAirflow

ARMED_AT_ONCE = 5
"""Listeners of each contender that begin to wait together, which saves time."""
DEFERRED_SECONDS = 90.0
"""How long they are waited for at most. One that does not wait then starts nothing, which shows."""
IDLE_SECONDS = 10.0
"""From all deferred to the first message: ``settle_seconds``, and time for connections to be opened."""
LONGEST_SECONDS = 30.0
"""After this a message has started nothing in time, and the next has its turn."""
SLOW_SECONDS = 150.0
"""The same, of a contender that polls every 60 s."""
SPREAD_SECONDS = 6.0
"""Between two messages of such a contender."""
REST_SECONDS = 0.5
"""Between two messages in turn, for what the last one set off to come to its end."""
CHANCES = 3
"""A contender that started nothing so often in a row has no more turns."""

Samples = dict[str, list[float | None]]
"""Seconds from put to queued of each contender, round by round; None where nothing was started in time."""


@dataclass(frozen=True)
class Turns:
    """
    :param airflow: in which all contenders are.
    """

    airflow: LocalAirflow

    def taken(self, contenders: Sequence[Contender], rounds: int) -> Samples:
        """Give each contender one message a round; who began one round comes last in the next."""
        samples: Samples = {each.name: [] for each in contenders}
        for first in range(0, rounds, ARMED_AT_ONCE):
            numbers = range(first, min(first + ARMED_AT_ONCE, rounds))
            places = self._armed([each for each in contenders if not gave_up(samples[each.name])], numbers)
            for number in numbers:
                for contender in rotated(contenders, number):
                    place = places.get((contender.name, number))
                    series = samples[contender.name]
                    series.append(None if place is None or gave_up(series) else self._one(contender, place))
        return samples

    def side_by_side(self, contender: Contender, count: int) -> list[float | None]:
        """Give so many messages to as many listeners, without waiting for the run of one to put the next."""
        places = self._armed([contender], range(count)).values()
        put_at: dict[str, float] = {}
        for place in places:
            put_at[place] = time.time()
            contender.puts(place)
            time.sleep(SPREAD_SECONDS)
        self._in_time(lambda: len(self.airflow.api.dag_runs(contender.target)) == count, SLOW_SECONDS)
        runs = self.airflow.api.dag_runs(contender.target)
        queued_at = {run["conf"]["place"]: epoch(run["queued_at"]) for run in runs}
        return [queued_at[place] - put_at[place] if place in queued_at else None for place in places]

    def _armed(self, contenders: Sequence[Contender], numbers: range) -> dict[tuple[str, int], str]:
        """Have listeners wait, one for each number; their places, by name and number."""
        places, expected = {}, set()
        for number in numbers:
            for each in contenders:
                run_id = f"{each.name}_{number}"
                places[each.name, number] = each.opens(run_id) if each.opens else each.name
                if each.opens:
                    self.airflow.api.trigger_dag(each.name, {"place": places[each.name, number]}, run_id)
                    expected.add(run_id)
        self._in_time(lambda: expected <= self._deferred(), DEFERRED_SECONDS)
        time.sleep(IDLE_SECONDS)
        return places

    def _deferred(self) -> set[str]:
        """The DAG runs whose listener waits in the triggerer."""
        path, which = "dags/~/dagRuns/~/taskInstances", {"state": "deferred", "limit": 100}
        found = self.airflow.api.request("GET", path, params=which)["task_instances"]
        return {each["dag_run_id"] for each in found}

    def _one(self, contender: Contender, place: str) -> float | None:
        """Put one message; seconds until its run is queued."""
        before, put_at = self._newest(contender), time.time()
        with contextlib.suppress(OSError):  # nobody waits at the pipe of the floor
            contender.puts(place)
        self._in_time(lambda: self._newest(contender) != before, LONGEST_SECONDS)
        after = self._newest(contender)
        time.sleep(REST_SECONDS)
        return epoch(after[1]) - put_at if after and after != before else None

    def _newest(self, contender: Contender) -> tuple[str, str] | None:
        """The run that was started last: its id, and when it was queued."""
        path, which = f"dags/{contender.target}/dagRuns", {"limit": 1, "order_by": "-id"}
        runs = self.airflow.api.request("GET", path, params=which)["dag_runs"]
        return (runs[0]["dag_run_id"], runs[0]["queued_at"]) if runs else None

    def _in_time(self, predicate: Callable[[], bool], seconds: float) -> None:
        """Wait so long at most; what did not come to pass shows in the samples."""
        with contextlib.suppress(TimeoutError):
            self.airflow.api.wait_until(predicate, seconds, "it is awaited", interval=0.2)


def gave_up(series: Series) -> bool:
    """Whether a contender has no more turns."""
    return len(series) >= CHANCES and not there(series[-CHANCES:])


def rotated(contenders: Sequence[Contender], number: int) -> Sequence[Contender]:
    """The order in which they have their turns in a round."""
    first = number % len(contenders)
    return [*contenders[first:], *contenders[:first]]
