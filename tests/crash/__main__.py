"""``python -m tests.crash``: put messages steadily, sabotage everything, count what became of them.

``MESSAGES`` (in all), ``MINUTES`` (of sabotage), ``KILLS`` (of processes, at least), ``SEED`` and ``INBOXES``
(such as "crash-sensor crash-notice"; all by default) come from the environment. One in ten messages of the
recipes with a dead-letter DAG is rejected by its target. A kill counts only if the process held leased
messages. Exit code 0 only where every recipe kept its promise.

With ``MEMORY`` (MB) a task that takes more is killed, messages have ``SIZE`` bytes and come in bursts, and
leases have up to 100. With ``KILLERS=1`` one of 25 messages ends the process that checks it.

With ``STORE=disk`` or ``s3``, payloads of ``THRESHOLD`` bytes or more (0) are there, and it is away for
``OUTAGE`` minutes after a quarter of the time. With ``DOCUMENTS=1000-30000000`` payloads have a text of so
many bytes, most of them a short one. With ``CALM=1`` nothing but the store is sabotaged.
"""

from __future__ import annotations

import itertools
import math
import os
import random
import secrets
import shutil
import socket
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path

from tests.crash.account import Account, table
from tests.crash.holding import PATH, VARIABLE, Holding
from tests.crash.memory import Memory
from tests.crash.poison import MARKER
from tests.crash.recipes import RECIPES, Recipe
from tests.crash.saboteur import Saboteur
from tests.crash.scene import Scene
from tests.crash.service import LATENCY_SECONDS, NAME, Service
from tests.crash.store import PREFIX, Store, store_of
from tests.crash.targets import are_whole
from tests.crash.topology import HEALING, Topology, exit_code
from tests.e2e.places import files, rows
from tools.evidence import print_result
from tools.local_airflow import LocalAirflow

UNDISTURBED_SECONDS = 120.0
"""How long the first message of each recipe may take, while nothing is sabotaged."""
QUIET_SECONDS = 300.0
SECONDS_PER_MESSAGE = 1.0
"""How long all that was put may take, after the last act of sabotage, to be done: each run has a task."""
LEASE_SECONDS = 60
MENDED_SECONDS = 120.0
"""How long Airflow may take to know that the targets are fixed, after all is started again."""
MESSAGES_PER_MINUTE = 600
SECONDS_BETWEEN_ACTS = 5.0
KILLS_PER_ACT = 0.4
BURSTS = 4
"""Messages come in so many bursts where leases should be large."""
DAG_IDS = ("listen", "drain", "handle_decorated_listener", "work_in_batches", "work_first", "read_events")
"""The listener of each recipe."""


@dataclass(frozen=True)
class Plan:
    """
    :param messages: how many are put, over all recipes.
    :param minutes: for which they are put, and everything is sabotaged.
    :param seed: of the saboteur.
    :param kills: the least number of processes that are killed.
    :param recipes: inboxes of the recipes to try; none for all.
    :param memory: MB that a task may take; 0 for any number.
    :param size: bytes of a payload, about; 0 for a few.
    :param killers: whether some messages end the process that checks them.
    :param store: where payloads of ``threshold`` bytes or more are: ``disk`` or ``s3``; by default in
        Airflow's database.
    :param outage: minutes for which the store is away.
    :param documents: least and most bytes of the text in a payload.
    :param calm: whether only the store is sabotaged.
    """

    messages: int
    minutes: float
    seed: int
    kills: int = 0
    recipes: tuple[str, ...] = ()
    memory: int = 0
    size: int = 0
    killers: bool = False
    store: str = ""
    threshold: int = 0
    outage: float = 0.0
    documents: tuple[int, int] = (0, 0)
    calm: bool = False

    @classmethod
    def of_environment(cls) -> Plan:
        names = ("MESSAGES", "MINUTES", "SEED", "KILLS", "INBOXES", "MEMORY", "SIZE", "KILLERS", "STORE")
        names += ("THRESHOLD", "OUTAGE", "DOCUMENTS", "CALM")
        variables = {name: os.environ.get(name) or "" for name in names}
        messages = int(variables["MESSAGES"] or 300)
        return cls(
            messages=messages,
            minutes=float(variables["MINUTES"] or max(4, messages / MESSAGES_PER_MINUTE)),
            seed=int(variables["SEED"] or secrets.randbelow(10**6)),
            kills=int(variables["KILLS"] or 0),
            recipes=tuple(variables["INBOXES"].split()),
            memory=int(variables["MEMORY"] or 0),
            size=int(variables["SIZE"] or 0),
            killers=variables["KILLERS"] == "1",
            store=variables["STORE"],
            threshold=int(variables["THRESHOLD"] or 0),
            outage=float(variables["OUTAGE"] or 0),
            documents=_range(variables["DOCUMENTS"]),
            calm=variables["CALM"] == "1",
        )

    @property
    def lease_limit(self) -> int:
        """
        Messages of a lease: two, or as many as keep up with what is put.

        Few, so that whatever waits is several leases, and tasks are killed while they hold two.
        """
        if self.memory:
            return 100
        per_second = self.messages / (self.minutes * 60 * len(self.chosen_recipes))
        return max(2, math.ceil(per_second * 4 * LATENCY_SECONDS * 2))

    @property
    def seconds_between_acts(self) -> float:
        """Mean seconds between two acts of sabotage; as many kills as are asked for take all minutes."""
        return max(SECONDS_BETWEEN_ACTS, self.minutes * 60 * KILLS_PER_ACT / (self.kills or math.inf))

    @property
    def chosen_recipes(self) -> list[Recipe]:
        """The recipes to try."""
        return [
            recipe
            for recipe in RECIPES
            if (not self.recipes or recipe.inbox in self.recipes)
            # Asset events have payloads, which a store forbids.
            and not (self.store and recipe.inbox == "crash-events")
        ]

    def text_bytes(self, number: int) -> int:
        """The length of the text in the payload of the message with this number, the same each time."""
        least, most = self.documents
        return round(least * (most / least) ** random.Random(number).random()) if most else 0

    @property
    def command(self) -> str:
        """What to run to see it again."""
        words = [f"MESSAGES={self.messages}", f"MINUTES={self.minutes:g}", f"SEED={self.seed}"]
        words += [f"KILLS={self.kills}"] if self.kills else []
        words += [f'INBOXES="{" ".join(self.recipes)}"'] if self.recipes else []
        words += [f"MEMORY={self.memory}"] if self.memory else []
        words += [f"SIZE={self.size}"] if self.size else []
        words += ["KILLERS=1"] if self.killers else []
        words += [f"STORE={self.store}", f"THRESHOLD={self.threshold}"] if self.store else []
        words += [f"OUTAGE={self.outage:g}"] if self.outage else []
        words += ["DOCUMENTS={}-{}".format(*self.documents)] if any(self.documents) else []
        words += ["CALM=1"] if self.calm else []
        return " ".join(["make crash-test", *words])


def _range(text: str) -> tuple[int, int]:
    """Two numbers with a hyphen between them, the first one at least 1; (0, 0) for an empty text."""
    least, _, most = text.partition("-")
    return (max(1, int(least)), int(most or least)) if text else (0, 0)


def crash(plan: Plan, topology: Topology, home: Path) -> bool:
    """Do it; whether every promise was kept."""
    announce(plan, topology)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        service = Service(listener.getsockname()[1])
    recipes, holding, store = plan.chosen_recipes, Holding(home / "held"), store_of(plan.store, home)
    with running(plan, topology, service, home, store) as airflow:
        airflow.wait_for_dags([dag_id for dag_id in DAG_IDS if not (plan.store and dag_id == "read_events")])
        accounts = {recipe: Account(recipe.name, {}) for recipe in recipes}
        scene = Scene(airflow, service, home / "worked", accounts, plan.size, plan.killers)
        # A recipe that does nothing even when nobody disturbs it would be a fault of this test.
        for recipe in recipes:
            scene.put(recipe, -1)
        assert scene.settles(UNDISTURBED_SECONDS, recipes), table(scene.current_accounts().values())
        memory = Memory(airflow)
        with Saboteur(
            *(airflow, service, plan.seed, plan.seconds_between_acts, LEASE_SECONDS + 10),
            *(holding, plan.memory or None),
        ) as saboteur:
            if plan.calm:
                saboteur.rest()
            if store and plan.outage:
                store.take_away_for(plan.outage * 60, after=plan.minutes * 60 / 4)
            put_steadily(plan, scene, saboteur, recipes, memory)
            saboteur.rest()
            scene.settles(
                QUIET_SECONDS + SECONDS_PER_MESSAGE * plan.messages, recipes, Traffic(scene, recipes)
            )
            saboteur.check()
        accounts = scene.current_accounts()
        leaks = places_with_payloads(airflow) if plan.store and not plan.threshold else Counter()
    return report(plan, topology, accounts, saboteur, memory, leaks)


def places_with_payloads(airflow: LocalAirflow) -> Counter[str]:
    """How many rows of the database and how many logs have a part of a payload, by table or file."""
    places = chain(
        files(airflow.home / "logs"),
        rows(airflow),
        ((file.name, file.read_bytes()) for file in airflow.home.glob("*.log")),
    )
    return Counter(name for name, content in places if MARKER.encode() in content)


class Traffic:
    """
    What goes on in a service that lives on: further messages, and time.

    A rejected message is decided after its target has started a run of another one. The leases of an hour
    with which retries tried a broken target are ended, as this test does not wait for them; each of their
    messages has its delivery all the same.
    """

    def __init__(self, scene: Scene, recipes: Sequence[Recipe]) -> None:
        self._scene = scene
        self._recipes = [recipe for recipe in recipes if recipe.dead_letter_dag_id]
        api = scene.airflow.api
        api.wait_until(lambda: are_whole(api), MENDED_SECONDS, "the targets to be fixed")
        print("The targets are fixed")

    def __call__(self) -> None:
        accounts = self._scene.current_accounts()
        for recipe in self._recipes:
            account = accounts[recipe]
            # Not for runs that are only queued: what is to be decided has no run yet. And not while messages
            # wait: those whose leases end would be before them.
            if account.lost > account.unfinished and not account.waiting:
                self._scene.service.expire_leases(recipe.inbox, LEASE_SECONDS)
                self._scene.put(recipe, 0)


def report(
    plan: Plan,
    topology: Topology,
    accounts: dict[Recipe, Account],
    saboteur: Saboteur,
    memory: Memory,
    leaks: Counter[str],
) -> bool:
    """
    Print what became of it all; whether every promise was kept.

    :param leaks: how often payloads were found outside their store, by place.
    """
    print(memory.table())
    print(table(accounts.values()))
    print(f"{sum(saboteur.done.values())} acts of sabotage, {saboteur.restarts} restarts, seed {plan.seed}:")
    for act, times in sorted(saboteur.done.items()):
        print(f"  {times:4} {act}")
    if plan.store and not plan.threshold:
        print(f"Payloads outside the store: {dict(leaks) or 'none'}")
    broken = [recipe.name for recipe, account in accounts.items() if not recipe.is_kept(account)]
    all_kept = not leaks and not broken
    print("Every promise was kept." if all_kept else "A PROMISE WAS BROKEN.")
    lost_messages = sum(account.lost for account in accounts.values())
    sound = sum(account.sound_dead_letters for account in accounts.values())
    twice = sum(account.duplicates for recipe, account in accounts.items() if recipe.once)
    message_count = sum(len(account.put) for account in accounts.values())
    acts = f"{saboteur.kills} kills of processes that held messages, among {saboteur.done.total()} acts"
    losses = f"{lost_messages} lost, {twice} twice, {sound} sound ones dead letters"
    print_result(
        f"{message_count} messages over {len(accounts)} recipes, {acts}: {losses};"
        f" broken recipes: {', '.join(broken) or 'none'}; {topology.name};"
        f" as {plan.command}; MB, first and last third: {memory.summary()}"
    )
    return all_kept


def announce(plan: Plan, topology: Topology) -> None:
    print(f"Topology: {topology.name}")
    print(f"{plan.messages} messages over {plan.minutes:g} minutes")
    print(f"Leases of {plan.lease_limit} messages for {LEASE_SECONDS} s")
    print(f"The service answers leases and acknowledgements {LATENCY_SECONDS} s late")
    print("Airflow heals sooner than by default:")
    for name, value in HEALING.items():
        print(f"  {name}={value}")
    sys.stdout.flush()


@contextmanager
def running(
    plan: Plan, topology: Topology, service: Service, home: Path, store: Store | None
) -> Iterator[LocalAirflow]:
    """The whole of it: Airflow and, beside its processes, the emulator."""
    worked = home / "worked"
    worked.mkdir()
    # A copy: the file of the targets is broken and mended.
    dags_folder = Path(shutil.copytree(Path(__file__).parent / "dags", home / "dags"))
    env = {
        **HEALING,
        "WORKFLOW_CRASH_WORKED": str(worked),
        "WORKFLOW_CRASH_LEASE_LIMIT": str(plan.lease_limit),
        VARIABLE: str(home / "held"),
        "AIRFLOW__WORKFLOW__OBSERVERS": PATH,
    }
    if store:
        settings = store.settings | {f"{PREFIX}_THRESHOLD": str(plan.threshold)}
        env |= settings
        os.environ.update(settings)  # the account reads the payloads of runs
    connections = {"workflow_default": service.connection_json()}
    airflow = topology.airflow(home, dags_folder, connections, env, quick=False)
    state = str(home / "emulator.db")
    with airflow:
        airflow.start_process(
            NAME,
            service.arguments(state, [recipe.inbox for recipe in RECIPES]),
            "airflow_provider_workflow.emulator",
        )
        service.slow_down()
        yield airflow


def put_steadily(
    plan: Plan, scene: Scene, saboteur: Saboteur, recipes: Sequence[Recipe], memory: Memory
) -> None:
    """
    Put the messages one by one or in bursts, in turn for each recipe, and sample the memory meanwhile.

    More are put until enough processes were killed: only one that holds messages counts.
    """
    began_at, burst = time.monotonic(), math.ceil(plan.messages / BURSTS) if plan.memory else 1
    for number in itertools.count():
        if number >= plan.messages and saboteur.kills >= plan.kills:
            return
        due = number // burst * burst * plan.minutes * 60 / plan.messages
        time.sleep(max(0.0, began_at + due - time.monotonic()))
        scene.put(recipes[number % len(recipes)], number // len(recipes), plan.text_bytes(number))
        saboteur.check()
        memory.sample()


if __name__ == "__main__":
    raise SystemExit(exit_code("crash", partial(crash, Plan.of_environment())))
