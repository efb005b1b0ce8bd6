"""
Messages and leases that kill the process that works on them cost sound messages nothing but time.

The histories are those of the simulation, with chosen messages: the sensor, the operator and the task that
works on batches are real; time, the service and Airflow are simulated.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from airflow_provider_workflow.dispatch.run_errors import TargetError
from tests.simulation import batches
from tests.simulation.plan import DEFERRED, KILLER, NORMAL, OPERATOR, POISON, POKE, calm, message_of
from tests.simulation.play import play_plan, staged
from tests.simulation.scheduler import START
from tests.simulation.world import World
from tests.unit.fake_clock import FakeClock
from tests.unit.fake_stats import FakeStats
from tests.unit.fakes import api_error, lost
from tests.unit.workbench import Workbench

REJECTED = api_error(400, "value_error", "Invalid input for param customer")


@dataclass
class Outcome:
    """
    How a history ended.

    :param runs: messages that have a run; ``dead``: that have a dead letter.
    :param waited: seconds until the last sound message had its run.
    :param kills: processes that were killed.
    :param deliveries: the highest delivery count of a sound message.
    """

    runs: set[str] = field(default_factory=set)
    dead: dict[str, str] = field(default_factory=dict)
    quarantined: set[str] = field(default_factory=set)
    waited: float = 0.0
    kills: int = 0
    deliveries: int = 0

    def look(self, world: World) -> None:
        ledger = world.ledger
        self.runs = {key[1] for key, runs in ledger.runs.items() if runs and key[1].startswith("m")}
        self.dead = {key[1]: runs[0].conf["reason"] for key, runs in ledger.dead_letters.items() if runs}
        queues = [world.store.messages.queue(inbox_id) for inbox_id in world.inbox_ids.values()]
        live = [message for queue in queues for message in queue.live.values()]
        self.quarantined = {str(message.id) for message in live if message.status == "quarantined"}
        self.waited = max((moment - START for moment in ledger.run_times.values()), default=0.0)
        self.kills = sum(process.killed and bool(process.harmed) for process in world.scheduler.processes)
        sound = [leases for key, leases in ledger.deliveries.items() if world.messages[key].kind == NORMAL]
        self.deliveries = max(map(len, sound), default=0)


def outcome_of(kind: str, kinds: list[str], **changes: Any) -> Outcome:
    """The outcome of a history with these messages, which all arrive at its beginning."""
    outcome = Outcome()
    messages = [message_of("m", number, kind_of_message) for number, kind_of_message in enumerate(kinds)]
    plan = calm(kind, messages, spares_sound=True, **changes)
    with staged():
        assert play_plan(plan, look=outcome.look) == ""
    return outcome


def with_killers(number: int, of: int, other_kind: str = NORMAL) -> list[str]:
    kinds = [other_kind if position % 10 == 9 else NORMAL for position in range(of)]
    for killer in range(number):
        kinds[(killer + 1) * (of // (number + 1))] = KILLER
    return kinds


@pytest.mark.parametrize(
    ("kind", "memory", "dead_letters"),
    [(POKE, 50, "dead"), (POKE, 5, None), (DEFERRED, 20, None), (OPERATOR, 5, "dead")],
)
def test_a_lease_that_is_too_large_for_the_memory_of_its_worker_quarantines_no_message(
    kind: str, memory: int, dead_letters: str | None
) -> None:
    outcome = outcome_of(kind, [NORMAL] * 200, memory=memory, dead_letter_dag_id=dead_letters)

    assert outcome.kills >= 1
    assert len(outcome.runs) == 200
    assert outcome.quarantined == set()
    assert outcome.dead == {}


def test_a_worker_is_killed_once_for_a_long_backlog() -> None:
    outcome = outcome_of(OPERATOR, [NORMAL] * 1_000, memory=50)

    assert outcome.kills == 1
    assert len(outcome.runs) == 1_000


@pytest.mark.parametrize("memory", [50, 20, 5])
def test_a_batch_that_is_too_large_for_the_memory_of_its_worker_quarantines_no_message(memory: int) -> None:
    kinds = {f"m{number:03}": batches.SOUND for number in range(100)}
    plan = replace(
        batches.choose(1),
        kinds=kinds,
        at=dict.fromkeys(kinds, 0.0),
        tasks=1,
        batch_size=100,
        lease_seconds=300,
        dead_letter_after=3,
        memory=memory,
    )
    assert batches.play_plan(plan, 1) == ""


@pytest.mark.parametrize(
    ("kind", "killers", "other_kind"),
    [(POKE, 5, NORMAL), (POKE, 5, POISON), (DEFERRED, 1, NORMAL), (OPERATOR, 12, POISON)],
)
def test_messages_that_kill_the_process_that_starts_their_runs_are_dead_letters_and_take_no_other_with_them(
    kind: str, killers: int, other_kind: str
) -> None:
    kinds = with_killers(killers, 100, other_kind)
    outcome = outcome_of(kind, kinds, dead_letter_dag_id="dead")

    dead_killers = {
        outcome.dead.get(f"m{number}")
        for number, kind_of_message in enumerate(kinds)
        if kind_of_message == KILLER
    }
    assert dead_killers == {"undecided"}
    assert len(outcome.dead) == len(kinds) - kinds.count(NORMAL)
    assert len(outcome.runs) == kinds.count(NORMAL)
    assert outcome.quarantined == set()


@pytest.mark.parametrize(("kind", "killers"), [(POKE, 12), (OPERATOR, 5)])
def test_without_a_dead_letter_dag_they_take_no_other_into_quarantine(kind: str, killers: int) -> None:
    outcome = outcome_of(kind, with_killers(killers, 100))

    assert len(outcome.runs) == 100 - killers
    assert outcome.deliveries <= 4


@pytest.mark.parametrize("kind", [DEFERRED, OPERATOR])
def test_sound_messages_wait_for_less_than_half_an_hour_behind_five_that_kill(kind: str) -> None:
    assert outcome_of(kind, with_killers(5, 100)).waited < 1800


def test_the_fourth_delivery_is_tried_and_the_fifth_starts_with_the_dead_letter(bench: Workbench) -> None:
    bench.allow_dead_letters()
    bench.put("fourth", lease_count=3)
    bench.put("fifth", lease_count=4)
    bench.dispatcher().drain()

    assert bench.supervisor.started == ["fourth"]
    assert {name: letter["reason"] for name, letter in bench.dead_letters.items()} == {"fifth": "undecided"}
    assert bench.dead_letters["fifth"]["target_dag_id"] == "handle"
    assert bench.states == {}


def test_a_target_that_is_corrected_before_the_fourth_delivery_starts_its_messages(bench: Workbench) -> None:
    bench.allow_dead_letters()
    bench.put("a", lease_count=2)
    bench.supervisor.refuse("", REJECTED)
    with pytest.raises(TargetError):
        bench.dispatcher().drain()
    bench.supervisor.faults.clear()
    bench.service.store.clock.advance(301)  # type: ignore[attr-defined]
    bench.dispatcher(attempt=2).drain()

    assert bench.supervisor.started == ["a"]
    assert bench.dead_letters == {}


def test_a_message_without_a_delivery_to_spare_is_decided_before_its_lease_ends(
    bench: Workbench, fake_clock: FakeClock
) -> None:
    bench.allow_dead_letters()
    old = [f"old{number}" for number in range(8)]
    for message_id in old:
        bench.start_before(message_id)
    bench.put(old[0])
    bench.put("fourth", lease_count=3)
    bench.put(*old[1:])
    bench.supervisor.faults.append(lambda _: fake_clock.advance(60))  # Airflow is slow
    bench.supervisor.refuse("fourth", REJECTED)
    with pytest.raises(TargetError):
        bench.dispatcher(attempt=2).drain()

    assert {name: letter["reason"] for name, letter in bench.dead_letters.items()} == {"fourth": "target"}
    assert bench.states["old7"] == "available"


@pytest.mark.parametrize("error", [REJECTED, lost("ReadError")])
def test_a_fifth_delivery_whose_dead_letter_is_not_known_to_be_started_is_left_to_its_lease(
    bench: Workbench, fake_stats: FakeStats, error: Any
) -> None:
    bench.allow_dead_letters()
    bench.put("a", lease_count=4)
    bench.supervisor.faults.append(lambda request: error if request.dag_id == "dead" else None)
    dispatcher = bench.dispatcher()
    dispatcher.drain()

    assert bench.supervisor.runs == {}
    assert bench.states == {"a": "leased"}
    assert dispatcher.counts.result["rejected"]["count"] == 1
    assert fake_stats.totals["rejected"] == 1


def test_the_dead_letter_of_a_fifth_delivery_is_acknowledged_once(bench: Workbench) -> None:
    bench.allow_dead_letters()
    bench.put("a", lease_count=4)
    bench.dispatcher().drain()

    assert [body["message_ids"] for body in bench.bodies_of("ack")] == [["a"]]


@pytest.mark.parametrize("unmatched", ["lease", "dead_letter"])
def test_a_message_that_no_route_takes_is_no_dead_letter_for_its_deliveries(
    bench: Workbench, unmatched: str
) -> None:
    bench.allow_dead_letters(unmatched=unmatched)
    bench.put("a", lease_count=4)
    bench.dispatcher(match="payload.other").drain()

    reasons = [letter["reason"] for letter in bench.dead_letters.values()]
    assert reasons == ([] if unmatched == "lease" else ["unmatched"])


def test_what_is_done_is_acknowledged_before_a_redelivered_message_is_tried(bench: Workbench) -> None:
    bench.put("a", "b", "c")
    bench.put("old1", "old2", lease_count=1)
    states: list[dict[str, str]] = []
    bench.supervisor.on_start = lambda: states.append(bench.states)
    bench.ready_dispatcher(5).drain()

    assert bench.supervisor.started == ["old1", "old2", "a", "b", "c"]
    assert "old1" not in states[1]
    assert states[4]["a"] == states[4]["b"] == "leased", "each acknowledgement is a request"


def test_messages_that_have_their_runs_are_leased_as_fast_as_others(bench: Workbench) -> None:
    bench.put(*(f"m{number}" for number in range(40)), payload={"key": "k"})
    bench.dispatcher(once_per="payload.key").drain()
    bench.put(*(f"n{number}" for number in range(40)), payload={"key": "k"})
    before = bench.service.count("lease")
    dispatcher = bench.dispatcher(once_per="payload.key", attempt=1)
    dispatcher.drain()

    assert dispatcher.counts.result["repeated"]["count"] == 40
    assert bench.lease_sizes[before:] == [1, 2, 4, 8, 16, 32, 18]
