"""Which parts run, how much of each, and which servers they need."""

from __future__ import annotations

from importlib import import_module

import pytest

from benchmarks.scale import finished, neighbor, runs, watchers
from benchmarks.scale.deployment import RABBITMQ_VARIABLE
from benchmarks.scale.wanted import PARTS, PEERS, Wanted, check, measure, with_parts
from tests.crash.topology import POSTGRES_VARIABLE, REDIS_VARIABLE


def test_every_part_is_a_module() -> None:
    modules = [import_module(f"benchmarks.scale.{part.partition('-')[2]}") for part in PARTS]
    modules.append(import_module("benchmarks.peers.peers"))

    assert [module for module in modules if not callable(module.run)] == []


def test_scale_stands_for_all_parts_each_once() -> None:
    assert with_parts(["client", "scale", "scale-runs"]) == ["client", *PARTS]
    assert with_parts(["scale-runs", "scale"])[0] == "scale-runs"
    assert with_parts(["parse"]) == ["parse"]


def test_a_part_gets_what_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    given = []
    monkeypatch.setattr(runs, "run", lambda wanted: given.append(wanted) or [])

    assert measure("scale-runs", Wanted(quick=True, messages=3)) == []
    assert given == [Wanted(quick=True, messages=3)]


def test_servers_are_asked_for_by_the_parts_that_need_them(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (POSTGRES_VARIABLE, RABBITMQ_VARIABLE, REDIS_VARIABLE):
        monkeypatch.delenv(name, raising=False)
    check(["client", "parse"])
    with pytest.raises(RuntimeError, match=f"set {POSTGRES_VARIABLE}, for example to postgresql://"):
        check(["client", "scale-runs"])
    monkeypatch.setenv(POSTGRES_VARIABLE, "postgresql://server")
    check(["scale-runs"])
    with pytest.raises(RuntimeError, match=f"set {REDIS_VARIABLE}, for example to redis://"):
        check(PARTS)
    monkeypatch.setenv(REDIS_VARIABLE, "redis://server")
    check(PARTS)
    with pytest.raises(RuntimeError, match=f"set {RABBITMQ_VARIABLE}, for example to amqp://"):
        check([PEERS])


def test_numbers_that_are_given_replace_those_of_the_part_and_nothing_else() -> None:
    assert watchers.size_of(Wanted()) == watchers.Size()
    assert watchers.size_of(Wanted(quick=True)) == watchers.QUICK
    few = watchers.size_of(Wanted(sizes=(7, 8)))
    assert (few.real, few.bare, few.decorated) == ((7, 8), (7, 8), watchers.Size().decorated)
    assert runs.size_of(Wanted(quick=True, messages=9)).messages == 9
    assert runs.size_of(Wanted(quick=True, messages=9)).workers == runs.QUICK.workers
    assert finished.size_of(Wanted(messages=9)) == finished.Size(9, finished.Size().seconds)
    assert list(neighbor.size_of(Wanted(messages=500)).messages) == [50, 500]
    assert list(neighbor.size_of(Wanted(messages=1)).messages) == [1]
    assert neighbor.size_of(Wanted(quick=True)) == neighbor.QUICK
