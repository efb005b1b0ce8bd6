"""One trial of some ways in one Airflow: messages one by one, and messages while the triggerer is killed."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from benchmarks.peers.ways import Way
from benchmarks.results import in_turns
from benchmarks.servers import Database
from benchmarks.stage import wait
from tools.local_airflow import LocalAirflow

MAX_SECONDS = 60.0
"""A message that no task has got after this time counts as not handled in time."""
REST_SECONDS = (1.0, 3.0)
"""Between two messages."""
KILL_SECONDS = (0.0, 2.0)
"""From the messages to the kill, chosen at random."""
RECOVERY_SECONDS = 25.0
"""From one kill to the messages before the next: in this time every watcher waits again."""
QUIET_SECONDS = 120.0
"""The trial ends when no task has got a message for so long; longer than the lease of an inbox."""
HANDLED = """
    SELECT extract(epoch FROM task.start_date)::float8, result.value
    FROM xcom result JOIN task_instance task USING (dag_id, task_id, run_id, map_index)
    WHERE result.dag_id = %s AND result.key = 'return_value'
"""


@dataclass(frozen=True)
class Counts:
    """What became of the messages of one way: how many were sent, that no task got, and that several got."""

    sent: int
    lost: int
    twice: int

    @classmethod
    def of(cls, numbers: Sequence[int], times: Mapping[int, int]) -> Counts:
        """
        :param sent: numbers of messages.
        :param times: how often tasks got each.
        """
        handled = [times.get(number, 0) for number in numbers]
        return cls(len(numbers), handled.count(0), sum(number > 1 for number in handled))


@dataclass(frozen=True)
class Trial:
    """The ways, and the Airflow with their DAGs."""

    airflow: LocalAirflow
    database: Database
    ways: Sequence[Way]

    def one_by_one(self, rounds: int) -> dict[str, list[float | None]]:
        """
        Send each way one message a round.

        :return: seconds until the task that gets it runs, by name of the way; None where none did in time.
        """
        numbers = {way.name: iter(range(rounds + 1)) for way in self.ways}
        ways = {way.name: partial(self._one, way, numbers[way.name]) for way in self.ways}
        return in_turns(ways, rounds, REST_SECONDS)

    def _one(self, way: Way, numbers: range) -> float | None:
        number, sent_at = next(numbers), time.time()
        way.send(number)
        wait(self.airflow, lambda: number in self._handled(way), MAX_SECONDS, interval=0.1)
        moments = self._handled(way).get(number)
        return moments[0] - sent_at if moments else None

    def among_kills(self, kills: int, burst: int, first: int) -> dict[str, Counts]:
        """
        Kill the triggerer with SIGKILL soon after messages were sent to each way, and start it again.

        :param burst: messages to each way before each kill.
        :param first: the number of the first message; none of these was sent before.
        """
        chance = random.Random(1)
        for kill in range(kills):
            for number in range(first + kill * burst, first + (kill + 1) * burst):
                for way in self.ways:
                    way.send(number)
            time.sleep(chance.uniform(*KILL_SECONDS))
            self.airflow.kill("triggerer", tree=True)
            self.airflow.restart("triggerer")
            time.sleep(RECOVERY_SECONDS)
        numbers = range(first, first + kills * burst)
        self._until_quiet(numbers)
        return {way.name: Counts.of(numbers, self._times(way)) for way in self.ways}

    def _until_quiet(self, numbers: Sequence[int]) -> None:
        """Wait until tasks have got all messages, or have got none for a while."""
        last, since = -1, time.monotonic()
        while time.monotonic() - since < QUIET_SECONDS:
            times_of_ways = [self._times(way) for way in self.ways]
            if all(times[number] for times in times_of_ways for number in numbers):
                return
            if (total := sum(times.total() for times in times_of_ways)) != last:
                last, since = total, time.monotonic()
            time.sleep(1)

    def _handled(self, way: Way) -> dict[int, list[float]]:
        """When tasks that got a message began, by its number."""
        times_by_number: dict[int, list[float]] = {}
        for began_at, numbers in self.database.rows(HANDLED, way.name):
            for number in numbers if isinstance(numbers, list) else ():
                times_by_number.setdefault(number, []).append(began_at)
        return times_by_number

    def _times(self, way: Way) -> Counter[int]:
        return Counter({number: len(moments) for number, moments in self._handled(way).items()})
