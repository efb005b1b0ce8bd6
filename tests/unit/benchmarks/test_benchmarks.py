"""The benchmarks that need no Airflow, in their shortest form: that they measure, not what."""

from __future__ import annotations

import pytest

from benchmarks import client, parse


def test_the_client_is_measured_beside_bare_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "QUICK_ROUNDS", 1)
    monkeypatch.setattr(client, "CALLS", client.AT_ONCE)

    rows = client.run(quick=True)

    assert {row.beside for row in rows} == {"bare requests", "bare aiohttp"}
    assert all(row.ratio is not None and row.ratio.median > 0 for row in rows)
    assert len({(row.what, row.beside) for row in rows}) == len(rows) == 12


def test_importing_is_measured_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parse, "QUICK_ROUNDS", 1)
    monkeypatch.setattr(parse, "DAG_FILE", "import dataclasses")
    monkeypatch.setattr(parse, "WORKFLOW", parse.Provider(parse.OURS, ("clock", "types")))
    monkeypatch.setattr(parse, "RECIPES", {"time": parse.Provider(parse.OURS, ("clock",))})
    monkeypatch.setattr(parse, "BESIDE", {"json": parse.Provider("email", ("mime", "parser"))})

    rows = {row.what: row for row in parse.run(quick=True)}

    everything = rows["modules loaded by them"].ours.median
    assert everything > rows["modules of the above that are ours"].ours.median
    assert all(everything > rows[f"modules loaded by: {name}"].ours.median > 0 for name in parse.RECIPES)
    assert all(rows[f"time to import: {name}"].met is not None for name in parse.RECIPES)
    assert all(rows[what].met is not None for what in ("time to import them", "modules loaded by them"))
    heavy = next(row for what, row in rows.items() if what.endswith("requests, tenacity: loaded by them"))
    assert heavy.met is True
    assert rows["loaded to discover providers, beyond the provider info"].met is True
