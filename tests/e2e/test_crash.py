"""The short form of ``make crash-test``: everything is killed for a minute, and every message is counted."""

from __future__ import annotations

import pytest


@pytest.mark.nightly
def test_every_recipe_keeps_its_promise_while_everything_is_killed(make_alone):
    said = make_alone("crash-test", "MESSAGES=60", "MINUTES=1", "SEED=20", seconds=900)

    assert "Every promise was kept." in said
