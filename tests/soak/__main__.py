"""
``python -m tests.soak``: let all recipes run at a steady rate, and see whether anything grows.

``MINUTES`` and ``RATE`` (messages per second) come from the environment. Exit code 0 only where nothing grew,
no watcher raised an alarm, and each message had its one run.
"""

from __future__ import annotations

import os
import sys
import time
from functools import partial
from pathlib import Path

from tests.crash import account
from tests.crash.topology import Topology, exit_code
from tests.soak.recipes import IDLE, RECIPES
from tests.soak.report import rows_of, table, warnings_of_unclosed
from tests.soak.sampling import Sampler
from tests.soak.scene import TOKEN_SECONDS, USER_TOKEN_SECONDS, SoakScene, running
from tools.evidence import print_result

START_SECONDS = 180.0
"""How long the first message of each recipe may take."""
END_SECONDS = 300.0
"""How long all that was put may take, after the last message, to be done."""


def main() -> int:
    minutes = float(os.environ.get("MINUTES") or 30)
    rate = float(os.environ.get("RATE") or 1)
    return exit_code("soak", partial(soak, minutes * 60, rate))


def soak(seconds: float, rate: float, topology: Topology, home: Path) -> bool:
    """
    Do it; whether nothing grew, and nothing was lost.

    :param seconds: for which messages are put. The first fifth warms up, the rest is measured.
    :param rate: messages per second, over all recipes.
    """
    print(f"Topology: {topology.name}")
    print(f"{rate:g} messages a second for {seconds:g} s, beside {len(IDLE)} idle watchers")
    print(f"Tokens live for {TOKEN_SECONDS:g} s, those of a user for {USER_TOKEN_SECONDS:g} s", flush=True)
    with running(topology, home) as scene:
        scene.airflow.wait_for_dags(["listen", "drain", "read_events", "idle", "handle_sensor", "warm_up"])
        # A process of a worker opens what it keeps open with its first task.
        api = scene.airflow.api
        api.wait_for_run("warm_up", api.trigger_dag("warm_up"), START_SECONDS)
        for recipe in RECIPES:
            scene.put(recipe, -1)
        assert scene.settles(START_SECONDS, RECIPES), (
            f"{account.table(scene.current_accounts().values())}\n{scene.airflow.tails(40)}"
        )
        sampler = Sampler(*(emulator.port for emulator in scene.service.all))
        put_and_sample(seconds, rate, scene, sampler)
        scene.settles(END_SECONDS, RECIPES)
        accounts = scene.current_accounts()
        print(f"The listener ran {len(api.dag_runs('listen'))} times")
        # Nothing starts runs of "idle" but alarms.
        failed = [
            run for name in ("listen", "drain") for run in api.dag_runs(name) if run["state"] == "failed"
        ]
        alarms = [run["dag_run_id"] for run in [*api.dag_runs("idle"), *failed]]
    rows = rows_of(sampler.series)
    print(table(rows))
    print(account.table(accounts.values()))
    warnings = warnings_of_unclosed(home)
    print(
        f"Lines of the logs about something that was not closed: {len(warnings)}", *warnings[:10], sep="\n  "
    )
    print(f"Alarms, all of them false: {len(alarms)}", *alarms[:10], sep="\n  ")
    steady = all(row.holds for row in rows) and not warnings
    all_kept = all(recipe.is_kept(account_of_recipe) for recipe, account_of_recipe in accounts.items())
    print("Nothing grows." if steady else "SOMETHING GROWS.")
    print("Every message had its one run." if all_kept else "A MESSAGE WAS LOST, OR WORKED ON TWICE.")
    messages = sum(len(account_of_recipe.put) for account_of_recipe in accounts.values())
    lost = sum(account_of_recipe.lost for account_of_recipe in accounts.values())
    growth = "nothing grows" if steady else "something grows"
    print_result(
        f"{seconds / 60:g} minutes, {messages} messages: {lost} lost, {len(alarms)} false alarms, {growth};"
        f" {topology.name}"
    )
    return steady and all_kept and not alarms


def put_and_sample(seconds: float, rate: float, scene: SoakScene, sampler: Sampler) -> None:
    """Put the messages, in turn for each recipe, and take samples once it is warm."""
    began_at = time.monotonic()
    message_count, sample_at, pause = 0, seconds / 5, min(10.0, max(2.0, seconds / 60))
    while (seconds_passed := time.monotonic() - began_at) < seconds:
        if seconds_passed * rate >= message_count:
            scene.put(RECIPES[message_count % len(RECIPES)], message_count)
            message_count += 1
        if seconds_passed >= sample_at:
            scene.sample(sampler, seconds_passed)
            sample_at += pause
        next_at = min(message_count / rate, sample_at, seconds)
        time.sleep(max(0.0, began_at + next_at - time.monotonic()))


if __name__ == "__main__":
    sys.exit(main())
