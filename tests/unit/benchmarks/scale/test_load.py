"""What groups of processes use."""

from __future__ import annotations

import os

import pytest

from benchmarks.process import proportional, resident
from benchmarks.scale.load import MACHINE, Load, Meter, machine_seconds, of, with_children


def test_a_share_is_of_one_core() -> None:
    assert Load(10.0, {"a": 5.0}).share("a") == 50


def test_each_window_begins_where_the_last_one_ended() -> None:
    used = iter((1.0, 4.0, 4.5))
    meter = Meter({"a": lambda: next(used)})
    assert meter.window().used["a"] == 3
    second = meter.window()
    assert second.used["a"] == 0.5
    assert set(second.used) == {"a", MACHINE}


def test_a_process_that_ended_does_not_count() -> None:
    me, gone = os.getpid(), 2**22 + 1
    assert of(lambda: [gone])() == with_children(lambda: [gone])() == 0
    assert of(lambda: [me, gone])() == pytest.approx(of(lambda: [me])(), rel=0.1)


def test_this_process_is_part_of_the_machine() -> None:
    assert 0 < of(lambda: [os.getpid()])() <= with_children(lambda: [os.getpid()])() + 0.05
    assert machine_seconds() > with_children(lambda: [os.getpid()])() / 2


def test_shared_memory_counts_in_part() -> None:
    assert 0 < proportional(os.getpid()) <= resident(os.getpid()) * 1.1
