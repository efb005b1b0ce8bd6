"""``python -m tests.crash``: put messages steadily, sabotage everything, count what became of them.

``MESSAGES`` (in all), ``MINUTES`` (of sabotage) and ``SEED`` come from the environment. Exit code 0 only
where every recipe kept its promise.
"""

from __future__ import annotations

import os
import secrets
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.crash.account import Account, table
from tests.crash.recipes import RECIPES, Recipe
from tests.crash.saboteur import Saboteur
from tests.crash.scene import Scene
from tests.crash.service import LATENCY_SECONDS, NAME, Service, free_port
from tests.crash.targets import INBOXES, are_whole
from tests.crash.topology import HEALING, Topology, topology
from tools.local_airflow import LocalAirflow

UNDISTURBED_SECONDS = 120.0
"""How long the first message of each recipe may take, while nothing is sabotaged."""
QUIET_SECONDS = 300.0
"""How long all that was put may take, after the last act of sabotage, to be done."""
LEASE_SECONDS = 60
MENDED_SECONDS = 120.0
"""How long Airflow may take to know that the targets are mended, after all is started again."""
SECONDS_BETWEEN_ACTS = 5.0
ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Plan:
    """
    :param messages: how many are put, over all recipes.
    :param minutes: for which they are put, and everything is sabotaged.
    :param seed: of the saboteur.
    """

    messages: int
    minutes: float
    seed: int

    @classmethod
    def of_environment(cls) -> Plan:
        chosen = {name: os.environ.get(name) or "" for name in ("MESSAGES", "MINUTES", "SEED")}
        return cls(
            messages=int(chosen["MESSAGES"] or 300),
            minutes=float(chosen["MINUTES"] or 4),
            seed=int(chosen["SEED"] or secrets.randbelow(10**6)),
        )


def main() -> int:
    plan = Plan.of_environment()
    home = Path(tempfile.mkdtemp(prefix="workflow-crash-"))
    kept = False
    try:
        with topology() as chosen:
            kept = crash(plan, chosen, home)
    finally:
        if kept:
            shutil.rmtree(home)
        else:
            print(f"What Airflow and the emulator wrote is in {home}")
    return 0 if kept else 1


def crash(plan: Plan, chosen: Topology, home: Path) -> bool:
    """Do it; whether every promise was kept."""
    announce(plan, chosen)
    service = Service(free_port())
    with running(chosen, service, home) as airflow:
        airflow.wait_for_dags(["listen", "drain", "work_first", "read_events", "acknowledge_first"])
        scene = Scene(
            airflow, service, home / "worked", {recipe: Account(recipe.name, {}) for recipe in RECIPES}
        )
        # A recipe that does nothing even when nobody disturbs it would be a fault of this test.
        for recipe in RECIPES:
            scene.put(recipe, -1)
        assert scene.settles(UNDISTURBED_SECONDS, RECIPES), table(scene.counted().values())
        with Saboteur(airflow, service, plan.seed, SECONDS_BETWEEN_ACTS, LEASE_SECONDS + 10) as saboteur:
            put_steadily(plan, scene, saboteur)
            saboteur.rest()
            end_pilots(scene)
            scene.settles(QUIET_SECONDS, [recipe for recipe in RECIPES if recipe.promised])
            saboteur.check()
        accounts = scene.counted()
    return report(plan, accounts, saboteur)


def end_pilots(scene: Scene) -> None:
    """
    End the leases of an hour with which retries tried a target that was broken: nobody waits for them here.

    What is counted stays the same: each of their messages has its delivery, and is delivered once more.
    """
    api = scene.airflow.api
    api.wait_until(lambda: are_whole(api), MENDED_SECONDS, "the targets to be mended")
    ended = sum(scene.service.expire_leases(inbox, LEASE_SECONDS) for inbox in INBOXES)
    print(f"The targets are mended; {ended} leases of an hour were ended by the emulator's control route")


def report(plan: Plan, accounts: dict[Recipe, Account], saboteur: Saboteur) -> bool:
    """Print what became of it all; whether every promise was kept."""
    print(table(accounts.values()))
    print(f"{sum(saboteur.done.values())} acts of sabotage, {saboteur.restarts} restarts, seed {plan.seed}:")
    for act, times in sorted(saboteur.done.items()):
        print(f"  {times:4} {act}")
    kept = all(recipe.kept(account) for recipe, account in accounts.items() if recipe.promised)
    print("Every promise was kept." if kept else "A PROMISE WAS BROKEN.")
    return kept


def announce(plan: Plan, chosen: Topology) -> None:
    print(f"Topology: {chosen.name}")
    print(f"{plan.messages} messages over {plan.minutes:g} minutes, leases of {LEASE_SECONDS} s")
    print(f"The service answers leases and acknowledgements {LATENCY_SECONDS} s late")
    print("Airflow heals sooner than by default:")
    for name, value in HEALING.items():
        print(f"  {name}={value}")
    sys.stdout.flush()


@contextmanager
def running(chosen: Topology, service: Service, home: Path) -> Iterator[LocalAirflow]:
    """The whole of it: Airflow and, beside its processes, the emulator."""
    worked = home / "worked"
    worked.mkdir()
    # A copy: the file of the targets is broken and mended.
    dags_folder = Path(shutil.copytree(Path(__file__).parent / "dags", home / "dags"))
    airflow = LocalAirflow(
        home,
        dags_folder,
        {"workflow_default": service.connection_json()},
        {**HEALING, **chosen.env, "WORKFLOW_CRASH_WORKED": str(worked), "PYTHONPATH": str(ROOT)},
        parallelism=8,
        executor=chosen.executor,
        sql_alchemy_conn=chosen.database,
        log_level="INFO",
        components=chosen.components,
        quick=False,
    )
    state = str(home / "emulator.db")
    with airflow:
        airflow.start_process(
            NAME,
            service.arguments(state, [each.inbox for each in RECIPES]),
            "airflow_provider_workflow.emulator",
        )
        service.slow_down()
        yield airflow


def put_steadily(plan: Plan, scene: Scene, saboteur: Saboteur) -> None:
    """Put the messages one by one, in turn for each recipe."""
    started = time.monotonic()
    for number in range(plan.messages):
        time.sleep(max(0.0, started + number * plan.minutes * 60 / plan.messages - time.monotonic()))
        scene.put(RECIPES[number % len(RECIPES)], number)
        saboteur.check()


if __name__ == "__main__":
    raise SystemExit(main())
