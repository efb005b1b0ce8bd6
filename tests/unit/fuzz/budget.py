"""
How much is tried: the same examples each time, or many new ones.

``FUZZ_EXAMPLES=5000 python -m pytest tests/unit/fuzz`` tries that many examples of each property,
other ones each time; what fails is printed with how to repeat it.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

WANTED = int(os.environ.get("FUZZ_EXAMPLES", "0"))

settings.register_profile("same each time", derandomize=True, deadline=None, print_blob=True)
settings.register_profile(
    "others each time", derandomize=False, deadline=None, print_blob=True, database=None
)


def load() -> None:
    """For all unit tests: no result depends on chance, or on how fast the machine is."""
    settings.load_profile("others each time" if WANTED else "same each time")


def tries(examples: int, steps: int = 50, cost: int = 1) -> settings:
    """
    Settings of a property.

    :param examples: how many are tried where nobody asks for more.
    :param steps: of each example of a state machine.
    :param cost: how many ordinary examples one of these is worth.
    """
    return settings(
        max_examples=max(1, WANTED // cost) if WANTED else examples,
        stateful_step_count=steps,
        # The fixtures are what surrounds the examples; each of these makes what it changes anew.
        suppress_health_check=[
            HealthCheck.function_scoped_fixture,
            HealthCheck.too_slow,
            HealthCheck.data_too_large,
            HealthCheck.large_base_example,
        ],
    )
