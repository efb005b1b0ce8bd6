"""
The rules for the end of a history, when nothing was disturbed for long enough.

10. Each message has exactly one run, or its business key has, and is acknowledged, and everything is done in
    time.
11. A message that Airflow rejects, that no route takes, that does not fit the schema, or whose expression
    fails has no run and is not acknowledged.
12. Each quarantined message was disturbed: at least one of its deliveries ended with a process that was
    killed or frozen, with a call that failed, or beside a message of the kinds above. A broken target alone
    quarantines no message within two hours. Failed acknowledgements alone quarantine only messages that have
    their run.
13. With a dead-letter DAG each message has exactly one run or exactly one dead letter, and is acknowledged.
    The exception is a message that no route takes and that is left to its lease. A message becomes a dead
    letter only if the drain that met the rejection started another run of the same target. From its fourth
    delivery on, it is enough that the drain requested its run. A message is quarantined only if each of its
    last two deliveries ended without a decision.
14. A process raises what a task may raise, and nothing else (``listeners.py``).
15. Where the plan limits the wait (``longest_wait``), each sound message has its run within some minutes. If
    a process that was killed had leased it, the time counts from the end of that lease.
16. Where only messages and the size of leases kill processes, no sound message is quarantined, and none is a
    dead letter; with a dead-letter DAG each message that kills is one. The same holds where only the object
    storage of payloads fails.
17. With such a storage each drain writes to it before it leases, and leases nothing after a write failed
    (``ledger.py``). A run and a dead letter have the reference of their payload.
"""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING

from tests.simulation.keys import runs_of
from tests.simulation.plan import KILLER, NORMAL

if TYPE_CHECKING:
    from tests.simulation.knowledge import Key
    from tests.simulation.world import World


def check(world: World) -> str:
    """The first rule that does not hold; empty if all do."""
    if world.ledger.violation:
        return world.ledger.violation
    if (lost_key := next(filter(partial(_is_lost, world), world.messages), None)) is not None:
        return f"rule 16: {world.messages[lost_key].kind} {lost_key[1]} is not where it should be"
    if (late_key := next(filter(partial(_is_late, world), world.messages), None)) is not None:
        return f"rule 15: {late_key[1]} has no run within {world.plan.longest_wait:.0f} s"
    find = _with_dead_letters if world.plan.dead_letter_dag_id else _without
    return next((text for key in world.messages if (text := find(world, key))), "")


def _without(world: World, key: Key) -> str:
    """What is wrong about a message where there is no dead-letter DAG."""
    ledger, message = world.ledger, world.messages[key]
    runs = len(ledger.runs.get(world.identity(key), ()))
    if message.kind != NORMAL:
        return f"rule 11: {message.kind} {key[1]} has {runs} runs" if runs or key in ledger.done else ""
    if _is_quarantined(world, key):
        excused = _was_disturbed(world, key, runs)
        return "" if excused else f"rule 12: nothing disturbed {key[1]}, now quarantined"
    if runs != 1:
        return f"rule 10: {key[1]} has {runs} runs"
    return "" if key in ledger.done else f"rule 10: {key[1]} is not acknowledged in time"


def _with_dead_letters(world: World, key: Key) -> str:
    """What is wrong about a message where there is a dead-letter DAG."""
    ledger, kind = world.ledger, world.messages[key].kind
    of_key, letters = ledger.runs.get(world.identity(key), []), len(ledger.dead_letters.get(key, ()))
    # If two messages share a business key, one may have the run, and the other one a dead letter.
    runs = len(runs_of(key, of_key) if letters else of_key)
    text = f"rule 13: {kind} {key[1]} has {runs} runs and {letters} dead letters"
    if not world.plan.ends(kind):
        return text if runs or letters or key in ledger.done else ""
    if not runs and not letters and _is_quarantined(world, key):
        if world.plan.omits_counts:
            # Without counts, nobody knows that its next delivery is the last one.
            return "" if _was_disturbed(world, key, 0) else f"{text}, and is quarantined"
        last = ledger.deliveries[key][-2:]
        undecided = all(ledger.starts.is_undecided(key, lease) for lease in last)
        return "" if undecided else f"{text}, and is quarantined"
    if runs + letters != 1 and key not in ledger.starts.excepted:
        return text
    if kind != NORMAL and not letters:
        return text
    if _is_quarantined(world, key):
        return "" if _was_disturbed(world, key, runs + letters) else f"{text}, and is quarantined"
    return "" if key in ledger.done else f"{text}, and is not acknowledged in time"


def _is_quarantined(world: World, key: Key) -> bool:
    queue = world.store.messages.queue(key[0])
    return any(message.id == key[1] and message.status == "quarantined" for message in queue.live.values())


def _was_disturbed(world: World, key: Key, ends: int) -> bool:
    """
    Whether something disturbed a delivery of a message.

    :param ends: number of its runs and dead letters; without any, a failed acknowledgement is no excuse.
    """
    return any(
        lease.process.harmed
        or (ends and lease.process.knowledge.has_failed_ack)
        or any(world.is_odd(key[0], message_id) for message_id in lease.counts)
        for lease in world.ledger.deliveries[key]
    )


def _is_lost(world: World, key: Key) -> bool:
    """Whether messages that kill cost a sound message its run, or one of them is no dead letter."""
    plan, kind, is_dead = world.plan, world.messages[key].kind, bool(world.ledger.dead_letters.get(key))
    if not plan.spares_sound:
        return False
    if kind == KILLER and plan.memory is None and plan.dead_letter_dag_id is not None:
        return not is_dead
    return kind == NORMAL and (is_dead or _is_quarantined(world, key))


def _is_late(world: World, key: Key) -> bool:
    """Whether a sound message had no run for longer than it may."""
    longest = world.plan.longest_wait
    if longest is None or world.messages[key].kind != NORMAL:
        return False
    ends_of_killed = [lease.until for lease in world.ledger.deliveries[key] if lease.process.harmed]
    since = max(world.put_at[key], world.calm_since, *ends_of_killed)
    return world.ledger.run_times.get(world.identity(key), math.inf) > since + longest
