"""What a seed chooses: the versions, the listeners, the messages, and what disturbs them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from tests.simulation.airflow import BROKEN, IMPORT_ERROR, MISSING, REJECTS
from tests.simulation.keys import EMPTY, FULL

RELEASES = ((3, 2), (3, 3), (3, 4))
POKE, DEFERRED, OPERATOR = "poke", "deferred", "operator"
KINDS = (POKE, POKE, DEFERRED, DEFERRED, OPERATOR)
NORMAL, POISON, UNMATCHED, UNROUTABLE = "normal", "poison", "unmatched", "unroutable"
INVALID = "invalid"
SLOW = "slow"
CPU_SECONDS = "cpu_seconds"
"""The field of a payload with the CPU time that its check takes."""
KILLER = "killer"
DEAD_LETTERS = "dead"
MATCH = "length(payload.items) > `0`"
"""It is false for an unmatched message, and fails on an unroutable one."""
SCHEMA = {"required": ["n"], "properties": {"shop": {"maxLength": 1}}}
"""No payload of an invalid message fits it."""
ONCE_PER = "payload.key"
ONE: str = "handle"
TWO = {"handle": "payload.shop == 'a'", "handle_b": "payload.shop != 'a'"}
CHANGING = {
    "handle": "message_attributes.lease_count < `2`",
    "handle_b": "message_attributes.lease_count > `1`",
}
"""Chooses another DAG for a message that is delivered again."""
CHANGING_BACK = {
    "handle": "message_attributes.lease_count != `2`",
    "handle_b": "message_attributes.lease_count == `2`",
}
"""Chooses another DAG for the second delivery, and the first one again for the third."""
ITEMS: dict[str, Any] = {UNMATCHED: [], UNROUTABLE: 7}
"""The ``items`` of the kinds that ``MATCH`` does not accept."""


@dataclass(frozen=True)
class PlannedMessage:
    """
    A message that arrives in a history.

    :param kind: what is wrong with it: Airflow rejects it, no route takes it, it does not fit the schema, its
        check takes too long, or it kills the process that starts its run. Nothing, for ``normal``.
    :param at: when it arrives, in seconds after the beginning.
    :param count: number of its earlier deliveries.
    """

    message_id: str
    kind: str
    at: float
    payload: Mapping[str, Any]
    count: int = 0


@dataclass(frozen=True)
class Episode:
    """
    Something is broken for a time.

    :param fault: a state of a target DAG; otherwise ``service`` (away), ``inbox`` (paused), ``acknowledge``
        (each acknowledgement fails) or ``store`` (no payload can be written).
    :param at_run: number of the run, from 1, with which it begins; ``begin`` does not count then.
    """

    fault: str
    begin: float
    end: float
    dag_id: str = ""
    at_run: int | None = None


@dataclass
class Plan:
    """
    All choices of a history.

    :param inboxes: the listeners of each inbox, by kind.
    :param disturbed_for: seconds after which nothing is disturbed any more.
    :param harm: share of the processes that are killed, frozen or timed out.
    :param service_faults: share of the calls to the service that fail; ``airflow_faults``: to Airflow.
    :param silent_fail: whether a sensor goes on after an error.
    :param dead_letter_dag_id: the DAG that takes what the targets reject; None without one.
    :param dead_letter_after: delivery count from which a rejected message is a dead letter.
    :param unmatched: ``dead_letter`` or ``lease``: what becomes of a message that no route takes.
    :param pace: factor for the time of each call.
    :param longest_poll_seconds: the longest pause between two polls; likewise between two tries.
    :param most_kills: maximum number of processes that are harmed.
    :param notice_seconds: the longest time until Airflow notices that a task was killed.
    :param memory: messages that a process can hold; a larger lease kills it. None for any number.
    :param spares_sound: whether only messages and large leases kill processes. Sound messages must then not
        lose their last delivery.
    :param omits_counts: whether the service says nothing about deliveries.
    :param longest_wait: seconds after which each sound message must have its run, counted from its arrival,
        or from the last disturbance if that is later; None for no limit.
    :param has_store: whether payloads are in an object storage; ``store_faults``: share of its writes that
        fail.
    """

    seed: int
    release: tuple[int, int]
    inboxes: list[list[str]]
    messages: list[PlannedMessage]
    targets: str | dict[str, str]
    once_per: str | None
    lease_limit: int
    lease_seconds: int
    max_messages: int | None
    max_unfinished_runs: int | None
    run_seconds: float
    on_rejected: str
    disturbed_for: float
    harm: float
    service_faults: float
    airflow_faults: float
    silent_fail: bool
    retries: int
    retry_seconds: float
    poll_seconds: float
    quarantine_after: int
    duplicates: int
    pace: float
    dead_letter_dag_id: str | None = None
    dead_letter_after: int = 3
    unmatched: str = "lease"
    episodes: list[Episode] = field(default_factory=list)
    longest_poll_seconds: float = 1800.0
    longest_retry_seconds: float = 3600.0
    most_kills: int = 1_000
    notice_seconds: float = 300.0
    memory: int | None = None
    spares_sound: bool = False
    omits_counts: bool = False
    longest_wait: float | None = None
    has_store: bool = False
    store_faults: float = 0.0

    @property
    def dag_ids(self) -> list[str]:
        return [self.targets] if isinstance(self.targets, str) else list(self.targets)

    def ends(self, kind: str) -> bool:
        """Whether a message of this kind is acknowledged in the end."""
        if kind == UNMATCHED:
            return self.dead_letter_dag_id is not None and self.unmatched == "dead_letter"
        return kind == NORMAL or self.dead_letter_dag_id is not None

    @property
    def changes(self) -> bool:
        """Whether the DAG of a message changes; no process may then be delayed beyond the safety margin."""
        return self.targets is CHANGING or self.targets is CHANGING_BACK

    @property
    def is_alone(self) -> bool:
        """Whether runs of the targets are started by one process at a time, which knows their capacity."""
        return (
            self.max_unfinished_runs is not None
            and len(self.inboxes) == 1
            and self.inboxes[0] in ([POKE], [OPERATOR])
        )


def choose(seed: int) -> Plan:
    """The plan of a seed."""
    random = Random(seed)
    disturbed_for = random.choice((300.0, 1200.0, 3600.0, 7200.0))
    release = random.choice(RELEASES)
    targets = random.choice((ONE, ONE, ONE, TWO, CHANGING, CHANGING_BACK))
    two_inboxes = random.random() < 0.2
    has_dead_letters = random.random() < 0.5
    plan = Plan(
        seed=seed,
        release=release,
        inboxes=[_listeners(random), *([_listeners(random)[:1]] if two_inboxes else [])],
        messages=_messages(random, disturbed_for, has_dead_letters),
        targets=targets,
        once_per=None,
        lease_limit=random.choice((1, 2, 3, 5)),
        lease_seconds=random.choice((60, 60, 120, 300)),
        max_messages=random.choice((None, None, None, 1, 3)),
        max_unfinished_runs=random.choice((None, None, None, 1, 2)),
        run_seconds=random.choice((1.0, 30.0, 200.0)),
        on_rejected=random.choice(("fail", "log")),
        disturbed_for=disturbed_for,
        harm=random.choice((0.0, 0.2, 0.5, 0.8)),
        service_faults=random.choice((0.0, 0.0, 0.03, 0.15)),
        airflow_faults=random.choice((0.0, 0.0, 0.03, 0.15)),
        silent_fail=random.random() < 0.2,
        retries=random.choice((0, 2, 5)),
        retry_seconds=random.choice((10.0, 60.0, 300.0)),
        poll_seconds=random.choice((20.0, 60.0, 300.0)),
        quarantine_after=random.choice((5, 1000, 1000)),
        duplicates=random.choice((0, 0, 0, 1)),
        pace=random.choice((1.0, 1.0, 0.1)),
        dead_letter_dag_id=DEAD_LETTERS if has_dead_letters else None,
        dead_letter_after=random.randint(1, 4),
        unmatched=random.choice(("lease", "dead_letter")),
    )
    plan.episodes = _episodes(random, plan)
    if seed % 20 == 0:
        _behind_rejected_messages(random, plan)
    elif seed % 20 == 5:
        _with_keys(random, plan)
    elif seed % 20 == 10:
        _without_acknowledgements(random, plan)
    elif seed % 20 == 15:
        _longer_than_a_lease(random, plan)
    elif seed % 20 in (2, 12):
        _with_killers(random, plan)
    elif seed % 20 == 7:
        _without_counts(plan)
    elif seed % 20 == 3:
        _with_slow_checks(random, plan)
    elif seed % 20 == 17:
        _with_store(random, plan)
    elif seed % 20 == 8:
        _with_parts_of_keys(random, plan)
    return plan


def calm(kind: str, messages: list[PlannedMessage], **changes: Any) -> Plan:
    """
    A plan in which nothing is disturbed.

    :param kind: kind of its only listener, which has the default arguments.
    :param changes: fields of the plan that differ.
    """
    plan = choose(1)
    _use_defaults(Random(1), plan)
    plan.inboxes, plan.messages, plan.dead_letter_dag_id = [[kind]], messages, None
    plan.harm, plan.disturbed_for, plan.quarantine_after = 0.0, 0.0, 5
    plan.dead_letter_after, plan.run_seconds, plan.notice_seconds = 3, 1.0, 20.0
    return replace(plan, **changes)


def _with_keys(random: Random, plan: Plan) -> None:
    """Up to 30 messages, of which many repeat a business key, and at least two listeners."""
    plan.once_per, plan.targets, plan.dead_letter_dag_id = ONCE_PER, ONE, None
    plan.inboxes = [kinds * 2 if len(kinds) == 1 else kinds for kinds in plan.inboxes]
    plan.episodes = [episode for episode in plan.episodes if episode.dag_id in ("", ONE)]
    number = random.randint(2, 30)
    keys = random.choices([None, "", 0, "0", *(f"k{key}" for key in range(number))], k=number)
    kinds = random.choices((NORMAL, UNMATCHED, INVALID), (8, 1, 1), k=number)
    plan.messages = [
        message_of("m", index, kind, random.choice((0.0, random.random() * plan.disturbed_for)), key=key)
        for index, (kind, key) in enumerate(zip(kinds, keys, strict=True))
    ]


def _behind_rejected_messages(random: Random, plan: Plan) -> None:
    """
    Up to 100 rejected messages at the head of an inbox, and sound ones behind them. A listener with the
    default arguments starts the sound ones within minutes, even if it is killed a few times.
    """
    _use_defaults(random, plan)
    plan.messages = [message_of("p", index, POISON) for index in range(random.randint(1, 100))]
    plan.messages += [message_of("s", index, at=random.uniform(1.0, 900.0)) for index in range(5)]
    plan.disturbed_for, plan.harm = 3600.0, random.choice((0.0, 0.5, 1.0))
    plan.most_kills, plan.longest_wait = random.randint(0, 4), 900.0


def _without_acknowledgements(random: Random, plan: Plan) -> None:
    """Acknowledgements fail for hours while messages arrive; each message has its run nevertheless."""
    _use_defaults(random, plan)
    number, plan.disturbed_for = random.randint(10, 60), 2 * 3600.0
    moments = [*[0.0] * (number // 2), *(random.uniform(0.0, 7200.0) for _ in range(number // 2))]
    plan.messages = [message_of("s", index, at=at) for index, at in enumerate(moments)]
    plan.episodes = [Episode("acknowledge", 0.0, 2 * 3600.0)]
    plan.lease_limit, plan.quarantine_after = random.choice((5, 100)), 5
    plan.harm, plan.longest_wait = 0.0, 900.0


def _longer_than_a_lease(random: Random, plan: Plan) -> None:
    """Many messages, some of them rejected, and short leases: a drain goes on while its leases end."""
    _use_defaults(random, plan)
    number, plan.disturbed_for = random.randint(60, 150), 3600.0
    plan.messages = [message_of("s", index) for index in range(number)]
    for index in range(random.randint(0, 3)):
        plan.messages.insert(random.randint(0, 20), message_of("p", index, POISON))
    plan.lease_limit, plan.lease_seconds, plan.pace = random.choice((1, 5, 100)), 60, 1.0
    plan.service_faults, plan.harm = random.choice((0.0, 0.03)), 0.0


def _with_killers(random: Random, plan: Plan) -> None:
    """Messages, or large leases, that kill the process that starts runs, among many sound messages."""
    _use_defaults(random, plan)
    plan.inboxes = [[random.choice((POKE, DEFERRED, OPERATOR))]]
    plan.targets = random.choice((ONE, ONE, TWO))
    plan.memory = random.choice((None, 3, 10, 40))
    plan.lease_limit = random.choice((20, 100))
    number, killers = random.choice((30, 100)), random.choice((0, 1, 5) if plan.memory else (1, 5, 12))
    poison = random.choice((0.0, 0.0, 0.1, 0.3))
    kinds = [POISON if random.random() < poison else NORMAL for _ in range(number)]
    for position in random.sample(range(number), killers):
        kinds[position] = KILLER
    spread = random.choice((0.0, 0.0, 600.0))
    plan.messages = [
        message_of("m", index, kind, at=random.uniform(0.0, spread)) for index, kind in enumerate(kinds)
    ]
    plan.disturbed_for, plan.harm, plan.quarantine_after = 1200.0, 0.0, 5
    plan.unmatched, plan.spares_sound = "dead_letter", True


def _with_slow_checks(random: Random, plan: Plan) -> None:
    """Messages whose check takes too long, sometimes longer than a lease, among many sound messages."""
    _use_defaults(random, plan)
    plan.dead_letter_dag_id = random.choice((None, DEAD_LETTERS, DEAD_LETTERS))
    number, outlasts = random.randint(10, 60), random.random() < 0.3
    seconds = [random.choice((0.0, 0.0, 0.5, 4.9)) for _ in range(number)]
    for position in random.sample(range(number), 1 if outlasts else random.randint(1, 3)):
        seconds[position] = random.uniform(100.0, 3000.0) if outlasts else random.uniform(5.1, 20.0)
    plan.messages = [
        message_of("m", index, SLOW if check_seconds > 5 else NORMAL, cpu_seconds=check_seconds)
        for index, check_seconds in enumerate(seconds)
    ]
    plan.disturbed_for, plan.harm = 1200.0, random.choice((0.0, 0.5))
    plan.most_kills, plan.longest_wait = random.randint(0, 4), None if outlasts else 900.0


def _with_store(random: Random, plan: Plan) -> None:
    """Payloads in an object storage that is away for hours, and in which single writes fail."""
    _use_defaults(random, plan)
    plan.inboxes = [[random.choice((POKE, DEFERRED, OPERATOR))]]
    plan.dead_letter_dag_id = random.choice((None, DEAD_LETTERS, DEAD_LETTERS))
    plan.has_store, plan.store_faults = True, random.choice((0.0, 0.0, 0.02))
    number, plan.disturbed_for = random.randint(5, 40), 6 * 3600.0
    kinds = random.choices((NORMAL, POISON, INVALID), (8, 1, 1), k=number)
    plan.messages = [
        message_of("m", index, kind, random.choice((0.0, random.random() * plan.disturbed_for)))
        for index, kind in enumerate(kinds)
    ]
    plan.episodes = [_episode(random, plan, "store") for _ in range(random.randint(0, 3))]
    plan.harm, plan.quarantine_after, plan.spares_sound = 0.0, 5, True


def _with_parts_of_keys(random: Random, plan: Plan) -> None:
    """Business keys of two parts, one of which may be empty, together with a dead-letter DAG."""
    _with_keys(random, plan)
    plan.dead_letter_dag_id, number = DEAD_LETTERS, len(plan.messages)
    odd = random.choices((None, POISON, SLOW), (16, 1, 1), k=number)
    for index, (message, kind) in enumerate(zip(plan.messages, odd, strict=True)):
        # Messages of the odd kinds have no key: else the run of another message with the key would be theirs.
        first, second = random.choice("st"), random.choice(FULL if random.random() < 0.6 else EMPTY)
        key = None if kind else random.choice(([first, second], {"shop": first, "order": second}, second))
        extra = {"key": key, CPU_SECONDS: 6.0 if kind == SLOW else 0.0}
        plan.messages[index] = message_of("m", index, kind or message.kind, message.at, **extra)


def _without_counts(plan: Plan) -> None:
    """The service does not say how often a message was delivered."""
    plan.omits_counts, plan.quarantine_after = True, 5
    if plan.changes:
        plan.targets = TWO


def _use_defaults(random: Random, plan: Plan) -> None:
    """A single listener with the default arguments of the sensor, and nothing that disturbs it."""
    plan.inboxes, plan.targets = [[random.choice((POKE, DEFERRED))]], ONE
    plan.lease_limit, plan.lease_seconds, plan.pace = 100, 300, 0.1
    plan.retries, plan.retry_seconds, plan.longest_retry_seconds = 75, 10.0, 120.0
    plan.poll_seconds, plan.longest_poll_seconds = 5.0, 60.0
    plan.max_messages = plan.max_unfinished_runs = None
    plan.on_rejected, plan.silent_fail = "log", False
    plan.service_faults = plan.airflow_faults = 0.0
    plan.duplicates = 0
    plan.episodes = []


def _listeners(random: Random) -> list[str]:
    return [random.choice(KINDS) for _ in range(random.choice((1, 2, 2, 3)))]


def _messages(random: Random, seconds: float, has_dead_letters: bool) -> list[PlannedMessage]:
    odd = random.choice((0.0, 0.2, 0.5) if has_dead_letters else (0.0, 0.0, 0.2))
    most = random.choice((0, 0, 3)) if has_dead_letters else 0
    return [
        _message(random, number, seconds * random.choice((0.0, 1.0)), random.random() < odd, most)
        for number in range(1, random.randint(2, 12))
    ]


def message_of(
    prefix: str, number: int, kind: str = NORMAL, at: float = 0.0, shop: str = "", **extra: Any
) -> PlannedMessage:
    shop = "both" if kind == INVALID else shop or "ab"[number % 2]
    payload = {"n": number, "shop": shop, "items": ITEMS.get(kind, ["x"]), **extra}
    return PlannedMessage(f"{prefix}{number}", kind, at, payload)


def _message(random: Random, number: int, seconds: float, is_odd: bool, most: int) -> PlannedMessage:
    kind = random.choice((POISON, UNMATCHED, UNROUTABLE, INVALID)) if is_odd else NORMAL
    at = 0.0 if random.random() < 0.4 else random.random() * seconds
    return replace(message_of("m", number, kind, at, random.choice("ab")), count=random.randint(0, most))


def _episodes(random: Random, plan: Plan) -> list[Episode]:
    episodes = [
        _episode(random, plan, random.choice(BROKEN), random.choice(plan.dag_ids))
        for _ in range(random.choice((0, 0, 1, 2)))
    ]
    if random.random() < 0.3:
        number = random.randint(1, 5)
        episodes.append(Episode(random.choice(BROKEN), 0.0, random.choice((5.0, 300.0)), "handle", number))
    if plan.dead_letter_dag_id is not None:
        episodes.extend(_episodes_with_dead_letters(random, plan, plan.dead_letter_dag_id))
    if random.random() < 0.1:
        episodes.append(_episode(random, plan, "service"))
    if random.random() < 0.1:
        episodes.append(_episode(random, plan, "inbox"))
    if random.random() < 0.15:
        episodes.append(_episode(random, plan, "acknowledge"))
    return episodes


def _episodes_with_dead_letters(random: Random, plan: Plan, dag_id: str) -> Iterator[Episode]:
    """The dead-letter DAG is broken too, and a target again and again."""
    if random.random() < 0.3:
        yield _episode(random, plan, random.choice((MISSING, IMPORT_ERROR, REJECTS)), dag_id)
    if random.random() < 0.2:
        target = random.choice(plan.dag_ids)
        for _ in range(random.randint(2, 6)):
            begin = random.random() * plan.disturbed_for
            yield Episode(REJECTS, begin, begin + random.choice((5.0, 60.0, 900.0)), target)


def _episode(random: Random, plan: Plan, fault: str, dag_id: str = "") -> Episode:
    begin = random.choice((0.0, random.random() * plan.disturbed_for))
    return Episode(fault, begin, begin + random.random() * (plan.disturbed_for - begin), dag_id)
