"""One trial of all ways in one Airflow: messages one by one, and messages while the triggerer is killed."""

from __future__ import annotations

import contextlib
import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchmarks.peers.ways import Way
from benchmarks.scale.deployment import Database
from benchmarks.turns import rotated
from tools.local_airflow import LocalAirflow

LONGEST_SECONDS = 60.0
"""A message that no task has got after this time counts as not handled in time."""
REST_SECONDS = (1.0, 3.0)
"""Between two messages, chosen at random, so that no loop of Airflow is met in step."""
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
SEED = 1


@dataclass(frozen=True)
class Counted:
    """
    What became of the messages of one way.

    :param sent: their numbers.
    :param times: how often tasks got each.
    """

    sent: Sequence[int]
    times: Counter[int]

    @property
    def lost(self) -> int:
        """Messages that no task got."""
        return sum(not self.times[number] for number in self.sent)

    @property
    def twice(self) -> int:
        """Messages that tasks got more than once."""
        return sum(self.times[number] > 1 for number in self.sent)


@dataclass(frozen=True)
class Trial:
    airflow: LocalAirflow
    database: Database
    ways: Sequence[Way]

    def one_by_one(self, rounds: int) -> dict[str, list[float | None]]:
        """
        Send each way one message a round.

        :return: seconds until the task that gets it runs, by name of the way; None where none did in time.
        """
        chance = random.Random(SEED)
        samples: dict[str, list[float | None]] = {way.name: [] for way in self.ways}
        for number in range(rounds + 1):
            for way in rotated(self.ways, number):
                taken = self._one(way, number)
                if number:  # the first round warms everything up
                    samples[way.name].append(taken)
                time.sleep(chance.uniform(*REST_SECONDS))
        return samples

    def _one(self, way: Way, number: int) -> float | None:
        sent_at = time.time()
        way.send(number)
        self._in_time(lambda: number in self._handled(way), LONGEST_SECONDS)
        moments = self._handled(way).get(number)
        return moments[0] - sent_at if moments else None

    def among_kills(self, kills: int, burst: int, first: int) -> dict[str, Counted]:
        """
        Kill the triggerer with SIGKILL soon after messages were sent to each way, and start it again.

        :param burst: messages to each way before each kill.
        :param first: the number of the first message; none of these was sent before.
        """
        chance = random.Random(SEED)
        for number in range(kills):
            numbers = range(first + number * burst, first + (number + 1) * burst)
            for each in numbers:
                for way in rotated(self.ways, each):
                    way.send(each)
            time.sleep(chance.uniform(*KILL_SECONDS))
            self.airflow.kill("triggerer", tree=True)
            self.airflow.restart("triggerer")
            time.sleep(RECOVERY_SECONDS)
        sent = range(first, first + kills * burst)
        self._until_quiet(sent)
        return {way.name: Counted(sent, self._times(way)) for way in self.ways}

    def _until_quiet(self, sent: Sequence[int]) -> None:
        """Wait until tasks have got all messages, or have got none for a while."""
        last, since = -1, time.monotonic()
        while time.monotonic() - since < QUIET_SECONDS:
            handled = [self._times(way) for way in self.ways]
            if all(times[number] for times in handled for number in sent):
                return
            if (total := sum(times.total() for times in handled)) != last:
                last, since = total, time.monotonic()
            time.sleep(1)

    def _handled(self, way: Way) -> dict[int, list[float]]:
        """When tasks that got a message began, by its number."""
        found: dict[int, list[float]] = {}
        for began_at, numbers in self.database.rows(HANDLED, way.name):
            for number in numbers if isinstance(numbers, list) else ():
                found.setdefault(number, []).append(began_at)
        return found

    def _times(self, way: Way) -> Counter[int]:
        return Counter({number: len(moments) for number, moments in self._handled(way).items()})

    def _in_time(self, done: Callable[[], bool], seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            self.airflow.api.wait_until(done, seconds, "a task to get a message", interval=0.1)
